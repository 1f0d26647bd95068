"""Activations: `npu_silu`, `npu_swiglu` and their kin."""

from __future__ import annotations

import torch

from jumar.device.emulator.custom.mechanism import implements

Tensor = torch.Tensor


@implements("npu_silu")
def silu(x: Tensor) -> Tensor:
    """`x * sigmoid(x)`, any shape."""
    return torch.nn.functional.silu(x)


@implements("npu_swiglu")
def swiglu(x: Tensor, dim: int) -> Tensor:
    """`silu(a) * b` of the halves `a` and `b` of `x` along `dim`."""
    a, b = x.chunk(2, dim)
    return torch.nn.functional.silu(a) * b
