"""Checks of the arguments of operators: `expect` and the other functions raise for what an operator refuses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

Tensor = torch.Tensor

HALF = (torch.float16, torch.bfloat16)
FLOATING = (torch.float16, torch.bfloat16, torch.float32)
"""What most operators of the AI core take. float64 is in no list: the vector unit has none."""


def require(ok: bool, message: str) -> None:
    """Raise RuntimeError, as the adapter does, when a call breaks a rule of the operator."""
    if not ok:
        raise RuntimeError(message)


def expect(ok: bool, operator: str, rule: str, actual: Any) -> None:
    """`require`, with the message made of the operator, its rule and what the call has."""
    require(ok, f"{operator}: {rule}, but got {actual}.")


def require_dtype(operator: str, allowed: Collection[torch.dtype], **tensors: Tensor | None) -> None:
    """Raise RuntimeError when a tensor that is given has another dtype."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in allowed:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
            expect(False, operator, f"{name} must be one of {names}", str(tensor.dtype).removeprefix("torch."))


def refuse(operator: str, what: str, advice: str) -> None:
    """Raise NotImplementedError for a part of an operator whose result is not established."""
    raise NotImplementedError(f"npu::{operator} is emulated without {what}; {advice}.")


def refuse_given(operator: str, advice: str, **arguments: Any) -> None:
    """Raise NotImplementedError when one of these optional arguments is given."""
    for name, value in arguments.items():
        if value is not None:
            refuse(operator, name, advice)


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in the precision that the vector unit computes in: float32 for the 16-bit types."""
    return tensor.float() if tensor.dtype in HALF else tensor
