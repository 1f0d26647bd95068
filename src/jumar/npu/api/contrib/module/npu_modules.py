"""Dropout with a mask of bytes."""

from __future__ import annotations

import torch
from torch import nn

from jumar.npu.api.contrib.function.npu_functional import dropout_with_byte_mask

Tensor = torch.Tensor

__all__ = ["DropoutWithByteMask"]


class DropoutWithByteMask(nn.Module):
    """Dropout by `dropout_with_byte_mask`, of any shape. `max_seed` changes nothing, as at the vendor's.

    Raises ValueError for `p` outside [0, 1], and when called with `inplace=True`.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input1: Tensor) -> Tensor:
        """Return the input with elements dropped while training."""
        return dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
