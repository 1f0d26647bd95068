"""PyTorch's optimizer database (`optim_db`): parameters and state after some steps, in every implementation."""

from __future__ import annotations

import copy
from typing import Any

import torch
from compare import SEED, Outcome, differences, fail, prepare_imports, to_npu
from torch.utils._pytree import tree_map

NUM_STEPS = 5
SHAPES = ((4, 3), (3,), (2, 3, 2, 2), (1,))


def optimizer_database() -> list[Any]:
    """Return the infos of the database; SparseAdam's are tried on sparse gradients."""
    prepare_imports()
    from torch.testing._internal.common_optimizers import optim_db

    return list(optim_db)


def implementations(info: Any) -> list[dict[str, Any]]:
    """Return the flags of each implementation the CPU has: plain, foreach, fused, differentiable left out."""
    flags = [flag for flag in info.supported_impls if flag in ("foreach", "fused")]
    if "fused" in flags and "cpu" not in info.supports_fused_on:
        flags.remove("fused")
    plain = dict.fromkeys(flags, False)
    return [plain, *({**plain, flag: True} for flag in flags)]


def try_optimizer(info: Any) -> Outcome:
    """Compare an optimizer on both devices over its sample configurations."""
    outcome = Outcome(info.optim_cls.__name__)
    for number, item in enumerate(info.optim_inputs_func(device="cpu")):
        for flags in implementations(info):
            try:
                _try_input(info, {**item.kwargs, **flags}, outcome)
            except Exception as error:  # noqa: BLE001 (the point is to list what fails)
                fail(outcome, f"configuration {number} ({item.desc}) {flags}", error)
                return outcome
    return outcome


def _try_input(info: Any, kwargs: dict[str, Any], outcome: Outcome) -> None:
    torch.manual_seed(SEED)
    matrices_only = info.optim_cls.__name__ == "Muon"
    shapes = [shape for shape in SHAPES if len(shape) == 2 or not matrices_only]
    start = [torch.randn(shape) for shape in shapes]
    steps = [[torch.randn(shape) for shape in shapes] for _ in range(NUM_STEPS)]
    if info.only_supports_sparse_grads:
        steps = [[gradient.to_sparse() for gradient in gradients] for gradients in steps]
    expected = _train(info, copy.deepcopy(kwargs), start, steps)
    npu_kwargs = tree_map(lambda item: to_npu(item) if _on_device(item) else item, copy.deepcopy(kwargs))
    actual = _train(info, npu_kwargs, *tree_map(to_npu, (start, steps)))
    text = differences(expected[0], actual[0])
    assert not text, f"parameters: {text}"
    text = _state_differences(expected[1], actual[1])
    assert not text, f"state: {text}"
    outcome.num_samples += 1


def _on_device(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dim() > 0


def _train(info: Any, kwargs: dict[str, Any], start: Any, steps: Any) -> tuple[list[torch.Tensor], Any]:
    parameters = [item.detach().clone().requires_grad_() for item in start]
    optimizer = info.optim_cls(parameters, **kwargs)
    for gradients in steps:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step(lambda: sum(item.detach().square().sum() for item in parameters))
    return [item.detach() for item in parameters], optimizer.state_dict()["state"]


def _state_differences(expected: Any, actual: Any) -> str:
    """Return how two states differ: step counters stay on the CPU in some implementations, and may."""
    for number, state in expected.items():
        for name, value in state.items():
            other = actual[number][name]
            if isinstance(value, torch.Tensor) and other.device.type == "cpu":
                if not torch.equal(value, other):
                    return f"{name} of parameter {number}"
                continue
            text = differences(value, other)
            if text:
                return f"{name} of parameter {number}: {text}"
    return ""
