"""Dropout with a mask of bytes."""

from __future__ import annotations

import torch

Tensor = torch.Tensor

__all__ = ["dropout_with_byte_mask"]


def dropout_with_byte_mask(input1: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input1` with each element zeroed with probability `p` while `training`, the others divided by 1 - p.

    Raises ValueError for `p` outside [0, 1] and for `inplace=True`, which the operator does not have.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        raise ValueError("dropout probability has no-inplace computing.")
    result: Tensor = torch.ops.npu.dropout_with_byte_mask(input1, p, training)
    return result
