"""Run PyTorch's own operator database on the emulated NPU against the CPU and count what agrees.

    python benchmarks/emulator_operators.py [--every N] [--only NAME] [--samples N] [--json FILE]

For every operator of `torch.testing._internal.common_methods_invocations.op_db`, its sample inputs are
run on the CPU and on the npu: results and gradients must be equal bit for bit (NaN equal to NaN), with
the same shapes, strides, dtypes and on the right device.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib.util
import json
import math
import sys
import types
import unittest
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

SEED = 1234
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


@dataclasses.dataclass
class Outcome:
    """What happened with one operator: number of samples by result, and the first trouble."""

    name: str
    num_samples: int = 0
    num_gradients: int = 0
    num_unrepeatable: int = 0
    """Samples in which the CPU does not agree with itself: LAPACK's results depend on the alignment of memory."""
    trouble: str = ""


def to_npu(value: Any) -> Any:
    """Return a value of a sample on the npu: a tensor with its strides, and the memory around a view."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.detach().to("npu").requires_grad_(value.requires_grad)
        storage = torch.tensor([], dtype=value.dtype).set_(value.untyped_storage()).to("npu")
        moved = storage.as_strided(value.shape, value.stride(), value.storage_offset())
        if value.is_conj():
            moved = moved.conj()
        return moved.detach().requires_grad_(value.requires_grad)
    if isinstance(value, torch.device):
        return torch.device("npu") if value.type == "cpu" else value
    return value


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


def differences(cpu: Any, npu: Any, *, values: bool = True) -> str:
    """Return how two results differ, or an empty string."""
    left, left_spec = tree_flatten(cpu)
    right, right_spec = tree_flatten(npu)
    if left_spec != right_spec:
        return f"structure {right_spec} instead of {left_spec}"
    pairs = zip(left, right, strict=True)
    return next((text for a, b in pairs if (text := difference(a, b, values=values))), "")


def difference(a: Any, b: Any, *, values: bool) -> str:
    """Return how two leaves of results differ, or an empty string."""
    if not isinstance(a, torch.Tensor):
        both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
        return "" if a == b or both_nan or isinstance(a, torch.device) else f"value {b!r} instead of {a!r}"
    if b.device.type != "npu":
        return f"a result on {b.device}"
    for what in ("shape", "dtype", "layout", "requires_grad"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(b, what)} instead of {getattr(a, what)}"
    if a.layout is torch.strided and a.numel() and a.stride() != b.stride():
        return f"stride {b.stride()} instead of {a.stride()}"
    if values and not same(a, b):
        return f"values differ: {b.flatten()[:3].tolist()} instead of {a.flatten()[:3].tolist()}"
    return ""


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.detach().resolve_conj().resolve_neg(), b.detach().cpu().resolve_conj().resolve_neg()
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.dtype == torch.complex32:
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    return torch.equal(a, b)


def call(op: Any, sample: Any) -> Any:
    torch.manual_seed(SEED)
    return op(sample.input, *sample.args, **sample.kwargs)


def gradients(result: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in outputs if t.dtype.is_floating_point or t.dtype.is_complex]
    if not outputs or not inputs:
        return []
    torch.manual_seed(SEED)
    cotangents = [torch.ones_like(t) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))


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
            outcome.trouble = f"sample {number}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            break
    return outcome


def operator_database() -> list[Any]:
    """Import PyTorch's operator database, without the one test library that it needs only for its base class."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


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


def choose(only: str | None, every: int, wanted: tuple[torch.dtype, ...] = DTYPES) -> list[tuple[Any, torch.dtype]]:
    chosen = []
    for number, op in enumerate(operator_database()):
        if only is not None and only not in op.name:
            continue
        if number % every:
            continue
        dtypes = op.supported_dtypes("cpu")
        dtype = next((d for d in wanted if d in dtypes), None)
        if dtype is not None:
            chosen.append((op, dtype))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--dtype", help="this type only, e.g. bfloat16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    from jumar.device import DevicePlan, activate

    activate(DevicePlan(real="never"))
    warnings.simplefilter("ignore")
    wanted = (getattr(torch, options.dtype),) if options.dtype else DTYPES
    outcomes = []
    for op, dtype in choose(options.only, options.every, wanted):
        if options.verbose:
            print(op.name, op.variant_test_name, flush=True)
        outcome = try_operator(op, dtype, options.samples)
        outcomes.append(outcome)
        if outcome.trouble:
            print(f"{outcome.name}: {outcome.trouble}", flush=True)
    tally = collections.Counter("failing" if item.trouble else "agreeing" for item in outcomes)
    print(
        f"{len(outcomes)} operators tried: {dict(tally)}; {sum(i.num_samples for i in outcomes)} samples forward, "
        f"{sum(i.num_gradients for i in outcomes)} with gradients"
    )
    if options.json:
        table = {
            "torch": torch.__version__,
            "dtype": options.dtype or "float32, or the first of complex64, int64, bool the operator has",
            "num_operators": len(outcomes),
            "num_agreeing": tally["agreeing"],
            "num_failing": tally["failing"],
            "num_samples": sum(item.num_samples for item in outcomes),
            "num_samples_with_gradients": sum(item.num_gradients for item in outcomes),
            "num_samples_the_cpu_does_not_repeat": sum(item.num_unrepeatable for item in outcomes),
            "failing": {item.name: item.trouble for item in outcomes if item.trouble},
        }
        text = json.dumps(table, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    return int(bool(tally["failing"]))


if __name__ == "__main__":
    sys.exit(main())
