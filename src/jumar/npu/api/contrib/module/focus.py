"""The `Focus` layer of YOLOv5."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["Conv", "Focus", "autopad", "fast_slice"]


def autopad(k: Any, p: Any = None) -> Any:
    """Return the padding `p`, or the one that keeps the size for an odd kernel `k`, a number or several."""
    if p is not None:
        return p
    return k // 2 if isinstance(k, int) else [size // 2 for size in k]


class Conv(nn.Module):
    """Convolution without bias, batch normalization and LeakyReLU(0.1) (`act=False`: none)."""

    def __init__(self, c1: int, c2: int, k: Any = 1, s: Any = 1, p: Any = None, g: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k, p), groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.LeakyReLU(0.1, inplace=True) if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the normalized convolution."""
        result: Tensor = self.act(self.bn(self.conv(x)))
        return result

    def fuseforward(self, x: Tensor) -> Tensor:
        """Return the activation of the convolution, into which the normalization has been fused."""
        result: Tensor = self.act(self.conv(x))
        return result


def fast_slice(x: Tensor) -> list[Tensor]:
    """Return the four images of every second row and column of (..., height, width)."""
    return [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]


class Focus(nn.Module):
    """Stacks the four images of every second row and column as channels, and convolves them.

    The input is (batch, c1, height, width), the result that of `Conv` of 4 * c1 channels at half the size.
    """

    def __init__(self, c1: int, c2: int, k: Any = 1, s: Any = 1, p: Any = None, g: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolved stack."""
        result: Tensor = self.conv(torch.cat(fast_slice(x), 1))
        return result
