"""What the proofs share: moving samples to the npu, and comparing results bit for bit."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import sys
import types
import unittest
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

SEED = 1234


@dataclasses.dataclass
class Outcome:
    """What happened with one subject of a proof: number of samples by result, and the first trouble."""

    name: str
    num_samples: int = 0
    num_gradients: int = 0
    num_unrepeatable: int = 0
    """Samples in which the CPU does not agree with itself: LAPACK's results depend on the alignment of memory."""
    trouble: str = ""
    not_emulated: str = ""
    """What the emulator says where it has no such thing; nothing is compared then."""


def prepare_imports() -> None:
    """Let PyTorch's test databases import without the one library that they need only for a base class."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in


def fail(outcome: Outcome, where: str, error: BaseException) -> None:
    """Note what went wrong; a NotImplementedError is a refusal, not a wrong result."""
    if isinstance(error, NotImplementedError):
        outcome.not_emulated = f"{where}: {describe(error)}"
    else:
        outcome.trouble = f"{where}: {describe(error)}"


def describe(error: BaseException) -> str:
    """Return an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


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


def gradients(result: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in outputs if t.dtype.is_floating_point or t.dtype.is_complex]
    if not outputs or not inputs:
        return []
    torch.manual_seed(SEED)
    cotangents = [torch.ones_like(t) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))
