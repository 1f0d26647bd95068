"""Assignment where a condition holds."""

from __future__ import annotations

import torch

Tensor = torch.Tensor

__all__ = ["npu_fast_condition_index_put"]


def npu_fast_condition_index_put(x: Tensor, condition: Tensor, value: float) -> Tensor:
    """Return `x` with `value` where the bool tensor `condition` is true; `x` itself stays.

    Unlike `x[condition] = value`, no operator's shape depends on the data. Raises TypeError for a condition
    of another dtype.
    """
    if condition.dtype != torch.bool:
        raise TypeError("Expected condition.dtype in [torch.bool]")
    filled = torch.ones_like(x) if value == 1 else torch.zeros_like(x)
    return torch.where(condition, filled if value in (0, 1) else filled + value, x)
