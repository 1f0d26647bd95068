"""PyTorch's module database (`module_db`): outputs, gradients of inputs and parameters, in training and evaluation."""

from __future__ import annotations

import copy
from typing import Any

import torch
from compare import SEED, Outcome, differences, fail, gradients, prepare_imports, to_npu
from torch.utils._pytree import tree_flatten, tree_map


def module_database() -> list[Any]:
    """Return the infos of the database that have float32."""
    prepare_imports()
    from torch.testing._internal.common_modules import module_db

    return [info for info in module_db if torch.float32 in info.dtypes]


def try_module(info: Any, max_samples: int) -> Outcome:
    """Compare a module on both devices over its sample inputs."""
    outcome = Outcome(info.name)
    for training in (True, False):
        torch.manual_seed(SEED)
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for number, item in enumerate(inputs[:max_samples]):
            if item.forward_input is None:
                continue
            try:
                _try_input(info, item, training, outcome)
            except Exception as error:  # noqa: BLE001 (the point is to list what fails)
                fail(outcome, f"input {number} ({item.desc})", error)
                return outcome
    return outcome


def _try_input(info: Any, item: Any, training: bool, outcome: Outcome) -> None:
    torch.manual_seed(SEED)
    module = info.module_cls(*item.constructor_input.args, **item.constructor_input.kwargs).train(training)
    moved = copy.deepcopy(module).to("npu")
    args, kwargs = _leaves(item.forward_input.args), _leaves(item.forward_input.kwargs)
    npu_args, npu_kwargs = tree_map(to_npu, (args, kwargs))
    try:
        expected = _run(module, args, kwargs)
    except Exception as error:
        try:
            _run(moved, npu_args, npu_kwargs)
        except Exception:  # noqa: BLE001 (both raise)
            return
        raise AssertionError(f"the CPU raises {type(error).__name__}, the npu does not") from error
    actual = _run(moved, npu_args, npu_kwargs)
    text = differences(expected, actual)
    assert not text, f"forward: {text}"
    outcome.num_samples += 1
    text = differences(_gradients(module, expected, args, kwargs), _gradients(moved, actual, npu_args, npu_kwargs))
    assert not text, f"backward: {text}"
    text = differences(module.state_dict(), moved.state_dict())
    assert not text, f"state after the call: {text}"
    outcome.num_gradients += 1


def _leaves(value: Any) -> Any:
    def leaf(item: Any) -> Any:
        return item.detach().clone().requires_grad_(item.requires_grad) if isinstance(item, torch.Tensor) else item

    return tree_map(leaf, value)


def _run(module: Any, args: Any, kwargs: Any) -> Any:
    torch.manual_seed(SEED)
    return module(*args, **kwargs)


def _gradients(module: Any, result: Any, args: Any, kwargs: Any) -> list[Any]:
    inputs = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, torch.Tensor) and item.requires_grad]
    return gradients(result, [*inputs, *(item for item in module.parameters() if item.requires_grad)])
