"""PyTorch's operator database (`op_db`): results and gradients of its sample inputs, equal bit for bit.

NaN is equal to NaN; shapes, strides and dtypes must agree, and results be on the right device.
"""

from __future__ import annotations

from typing import Any

import torch
from compare import SEED, Outcome, differences, fail, gradients, prepare_imports, same, to_npu
from torch.utils._pytree import tree_flatten, tree_map

INDETERMINATE = {
    "empty": "the contents are whatever the memory held",
    "empty_like": "the contents are whatever the memory held",
    "empty_strided": "the contents are whatever the memory held",
    "empty_permuted": "the contents are whatever the memory held",
    "new_empty": "the contents are whatever the memory held",
    "new_empty_strided": "the contents are whatever the memory held",
    "resize_": "the new contents are whatever the memory held",
    "resize_as_": "the new contents are whatever the memory held",
}
"""Operators whose values say nothing: only shape, strides, dtype and device are compared."""


def move_sample(op: Any, sample: Any) -> Any:
    value, args, kwargs = tree_map(to_npu, (sample.input, list(sample.args), dict(sample.kwargs)))
    for name, item in kwargs.items():
        if name == "device" and item == "cpu":
            kwargs[name] = "npu"
    if op.name in ("arange", "linspace") and "device" not in kwargs:
        kwargs["device"] = "npu"
    if op.name == "to":
        args = ["npu" if item == "cpu" else item for item in args]
    if op.name == "tensor_split":
        args = [
            item.cpu() if isinstance(item, torch.Tensor) else item for item in args
        ]  # must be on the CPU on CUDA too
    return SampleInput(value, args=tuple(args), kwargs=kwargs)


def call(op: Any, sample: Any) -> Any:
    torch.manual_seed(SEED)
    return op(sample.input, *sample.args, **sample.kwargs)


def leaves(sample: Any) -> list[torch.Tensor]:
    flat = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return [t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad]


def try_sample(op: Any, sample: Any, outcome: Outcome) -> None:
    """Run one sample on both devices. Raises AssertionError with what differs."""
    values = op.name not in INDETERMINATE
    sample = as_leaves(sample)
    moved = move_sample(op, sample)
    try:
        reference = call(op, sample)
    except Exception as error:
        try:
            call(op, moved)
        except Exception:  # noqa: BLE001 (same)
            return
        raise AssertionError(f"the CPU raises {type(error).__name__}, the npu does not") from error
    result = call(op, moved)
    text = differences(reference, result, values=values)
    if text.startswith("values") and not repeats_itself(op, sample):
        outcome.num_unrepeatable += 1
        return
    assert not text, f"forward: {text}"
    outcome.num_samples += 1
    if not values:
        return
    try:
        expected = gradients(reference, leaves(sample))
    except RuntimeError:
        return  # the sample's gradient is not defined for a cotangent of ones, on the CPU already
    actual = gradients(result, leaves(moved))
    text = differences(expected, actual)
    if text.startswith("values") and not repeats_itself(op, sample, backward=True):
        outcome.num_unrepeatable += 1
        return
    assert not text, f"backward: {text}"
    outcome.num_gradients += bool(expected)


def try_operator(op: Any, dtype: torch.dtype, max_samples: int) -> Outcome:
    outcome = Outcome(f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}")
    torch.manual_seed(SEED)
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    for number, sample in enumerate(samples[:max_samples]):
        try:
            try_sample(op, sample, outcome)
        except Exception as error:  # noqa: BLE001 (the point is to list what fails)
            fail(outcome, f"sample {number}", error)
            break
    return outcome


def operator_database() -> list[Any]:
    """Return PyTorch's infos of operators."""
    prepare_imports()
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def as_leaves(sample: Any) -> Any:
    """Return the sample with tensors that are no results of others, as the moved ones are."""

    def leaf(value: Any) -> Any:
        return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value

    value, args, kwargs = tree_map(leaf, (sample.input, list(sample.args), dict(sample.kwargs)))
    return SampleInput(value, args=tuple(args), kwargs=kwargs)


def repeats_itself(op: Any, sample: Any, *, backward: bool = False) -> bool:
    """Return whether the CPU gives the same bits again when the inputs lie elsewhere in memory."""

    def outcome_of(inputs: Any) -> Any:
        result = call(op, inputs)
        return gradients(result, leaves(inputs)) if backward else result

    reference = outcome_of(sample)
    for _ in range(20):
        copied = sample.transform(lambda value: value.clone() if isinstance(value, torch.Tensor) else value)
        again = outcome_of(as_leaves(copied))
        pairs = zip(tree_flatten(reference)[0], tree_flatten(again)[0], strict=True)
        if any(isinstance(a, torch.Tensor) and not same(a, b) for a, b in pairs):
            return False
    return True


def SampleInput(*args: Any, **kwargs: Any) -> Any:
    from torch.testing._internal.opinfo.core import SampleInput as made

    return made(*args, **kwargs)


DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool)


def refusal(op: Any, dtype: torch.dtype) -> str:
    """Return what the policy `error` says of the operator's first samples: which operator has no NPU kernel."""
    torch.manual_seed(SEED)
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for sample in list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))[:2]:
        moved = move_sample(op, as_leaves(sample))
        try:
            gradients(call(op, moved), leaves(moved))
        except NotImplementedError as error:
            return " ".join(str(error).split())
        except Exception:  # noqa: BLE001 (the sample is compared elsewhere)
            continue
    return ""


def choose(only: str | None, every: int, wanted: tuple[torch.dtype, ...] = DTYPES) -> list[tuple[Any, torch.dtype]]:
    """Return the operators and the first of the wanted dtypes that each has."""
    chosen = []
    for number, op in enumerate(operator_database()):
        if (only is not None and only not in op.name) or number % every:
            continue
        dtype = next((d for d in wanted if d in op.supported_dtypes("cpu")), None)
        if dtype is not None:
            chosen.append((op, dtype))
    return chosen
