"""Activations that the vendor added before PyTorch had them; now deprecated."""

from __future__ import annotations

import torch
from torch import nn

from jumar.npu.api.contrib.deprecated import warn_deprecated

Tensor = torch.Tensor

__all__ = ["Mish", "SiLU", "Swish"]


class Mish(nn.Module):
    """`x * tanh(softplus(x))`, of any shape."""

    def __init__(self) -> None:
        super().__init__()
        warn_deprecated("module.Mish", "torch.nn.Mish")

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of every element."""
        result: Tensor = torch.ops.npu.npu_mish(x)
        return result


class SiLU(nn.Module):
    """`x * sigmoid(x)`, of any shape."""

    def __init__(self) -> None:
        super().__init__()
        warn_deprecated("module.SiLU", "torch.nn.SiLU")

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of every element."""
        result: Tensor = torch.ops.npu.npu_silu(x)
        return result


Swish = SiLU
