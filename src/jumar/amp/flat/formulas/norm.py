"""The norm of flat gradients, which also tells whether all of them are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Tensor = torch.Tensor


def norm_or_none(tensors: Sequence[Tensor]) -> float | None:
    """Return the Euclidean norm of all elements of all tensors, or None if one is infinite or not a number.

    Each tensor is read once: a norm is finite only if every element is. Where it is not, elements may be finite and
    only their squares too large for float32; then the norm is taken again in float64.
    """
    total = 0.0
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        wide = torch.promote_types(tensor.dtype, torch.float32)
        norm = torch.linalg.vector_norm(tensor, dtype=wide).item()
        if not math.isfinite(norm):
            norm = _careful_norm(tensor)
            if norm is None:
                return None
        total = math.hypot(total, norm)
    return total


def _careful_norm(tensor: Tensor) -> float | None:
    greatest = float(torch.linalg.vector_norm(tensor, ord=math.inf).item())
    if not math.isfinite(greatest):
        return None
    squares = [(piece.double() / greatest).square().sum() for piece in torch.split(tensor, 1 << 20)]
    return greatest * math.sqrt(float(sum(squares)))
