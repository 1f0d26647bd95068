"""Tensors as they are written: on the CPU, of the wanted dtype, without the memory of others behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from jumar.export.options import DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """A tensor with finite values that the wanted dtype cannot hold."""

    key: str
    num_values: int
    greatest: float
    """Greatest absolute finite value before the conversion."""


def convert_tensors(state: Mapping[str, Any], dtype: str | None) -> tuple[dict[str, Any], list[Overflow]]:
    """Return the state with tensors on the CPU and floating ones as `dtype` (a name of `DTYPES`, None: as they are).

    Tensors that were one (tied weights) stay one; a view of something larger no longer drags it along.
    """
    wanted = getattr(torch, DTYPES[dtype]) if dtype else None
    made: dict[tuple[Any, ...], torch.Tensor] = {}
    result: dict[str, Any] = {}
    overflows: list[Overflow] = []
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            result[key] = value
            continue
        identity = (value.data_ptr(), value.dtype, value.shape, value.stride()) if value.numel() else (key,)
        if identity not in made:
            made[identity], overflow = _convert(key, value, wanted)
            overflows += [overflow] if overflow else []
        result[key] = made[identity]
    return result, overflows


def _convert(key: str, value: torch.Tensor, dtype: torch.dtype | None) -> tuple[torch.Tensor, Overflow | None]:
    tensor = value.detach().cpu()
    if dtype is not None and tensor.is_floating_point() and tensor.dtype != dtype:
        narrow = tensor.to(dtype)
        return narrow, _overflow(key, tensor, narrow)
    own_bytes = tensor.numel() * tensor.element_size()
    return (tensor if tensor.untyped_storage().nbytes() == own_bytes else tensor.clone()), None


def _overflow(key: str, before: torch.Tensor, after: torch.Tensor) -> Overflow | None:
    finite = torch.isfinite(before)
    lost = finite & ~torch.isfinite(after)
    number = int(lost.sum())
    if number == 0:
        return None
    return Overflow(key=key, num_values=number, greatest=float(before[finite].abs().max()))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two CPU tensors have the same dtype, shape and bits (NaN equal to the same NaN)."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.numel() == 0:
        return True
    return torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
