"""`roll` over height and width by an index, for Swin transformers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch

Tensor = torch.Tensor

__all__ = ["roll"]


def roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Return `x`, (batch, height, width, channels), rolled by `shifts` over height and width.

    Like the vendor's, this function rolls dimensions 1 and 2 whatever `dims` are. It warns where that makes a
    difference. Raises ValueError for another number of dimensions, shifts or dims.
    """
    if x.dim() != 4:
        raise ValueError("Expected x.dim() == 4")
    if len(shifts) != 2:
        raise ValueError("Expected len(shifts) == 2")
    if len(dims) != 2:
        raise ValueError("Expected len(dims) == 2")
    if {dim % 4: shift for dim, shift in zip(dims, shifts, strict=True)} != dict(zip((1, 2), shifts, strict=True)):
        warnings.warn(
            f"torch_npu.contrib.roll rolls dimensions 1 and 2, as on the NPU, not {tuple(dims)}; use torch.roll.",
            UserWarning,
            stacklevel=2,
        )
    forth, back = _indices(x.size(1), x.size(2), tuple(shifts), x.device)
    result: Tensor = _RollWithIndexSelect.apply(x, forth, back)  # type: ignore[no-untyped-call]
    return result


class _RollWithIndexSelect(torch.autograd.Function):
    """Both directions are one `index_select`, where PyTorch's own backward would add up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return _select(x, forth)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _select(grad, ctx.back), None, None


def _select(x: Tensor, index: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height * width, channels).index_select(1, index).reshape(x.shape)


@functools.cache
def _indices(height: int, width: int, shifts: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return where each place comes from, and where it goes to, as int64 indices of places."""
    forth = torch.arange(height * width).reshape(height, width).roll(shifts, (0, 1)).flatten()
    return forth.to(device), forth.argsort().to(device)
