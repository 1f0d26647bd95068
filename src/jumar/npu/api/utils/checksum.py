"""`torch_npu.matmul_checksum`: whether a product agrees with the checksum of its factors."""

from __future__ import annotations

import math

import torch

__all__ = ["matmul_checksum"]

Tensor = torch.Tensor

_ROUNDING = 2.0**-8
"""Half a unit in the last place of bfloat16, relative."""
_TOLERANCE = 5
_SMALLEST = 5e-20


def matmul_checksum(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return a bool tensor: whether `c` cannot be the product of `a` and `b`, as the vendor's check decides.

    The sum of each row of `c` is held against `a` times the row sums of `b`; the allowance is five times the
    rounding of bfloat16 that adds up over a row. Raises TypeError for what is no tensor on the npu.
    """
    for value in (a, b, c):
        if not isinstance(value, Tensor) or value.device.type != "npu":
            raise TypeError("tensor should be torch.Tensor, and device type should be npu")
    expected = torch.matmul(a.float(), b.sum(dim=-1, keepdim=True, dtype=torch.float32)).squeeze(-1)
    difference = (c.sum(dim=-1, dtype=torch.float32) - expected).abs()
    largest, mean = c.abs().amax(dim=-1).float(), c.abs().float().mean(dim=-1)
    width = b.shape[-1]
    if bool((largest / mean).min() > _TOLERANCE):
        allowed = largest * _ROUNDING * math.sqrt(width)
    else:
        allowed = mean * _ROUNDING * width
    return (difference - _TOLERANCE * allowed > _SMALLEST).any()
