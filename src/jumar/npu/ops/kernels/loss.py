"""Losses and labels: `binary_cross_entropy_with_logits` in float16 and bfloat16, and `one_hot` of int32.

The loss has one kernel for the gradient, which rounds once. PyTorch composes the gradient of elementwise operators,
each of which rounds. The vendor's build has `npu_binary_cross_entropy_with_logits_backward` for it. float32, and exact
numerics, keep PyTorch's formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.ops.mechanism.derivatives import pytorchs_derivative

Tensor = torch.Tensor
Maybe = Tensor | None

_NAME = "aten::binary_cross_entropy_with_logits"
_HALVES = (torch.float16, torch.bfloat16)
_MEAN = 1
_recorded = pytorchs_derivative(_NAME)


class _Loss(torch.autograd.Function):
    """The loss whose gradient is the vendor's operator."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, target: Tensor, weight: Maybe, pos_weight: Maybe, reduction: int) -> Tensor:
        ctx.save_for_backward(x, target, weight, pos_weight)
        ctx.reduction = reduction
        with torch._C._AutoDispatchBelowAutograd():
            loss: Tensor = torch.ops.aten.binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Maybe, ...]:
        found = torch.ops.npu.npu_binary_cross_entropy_with_logits_backward(gradient, *ctx.saved_tensors, ctx.reduction)
        return found, None, None, None, None


def loss(x: Tensor, target: Tensor, weight: Maybe = None, pos_weight: Maybe = None, reduction: int = _MEAN) -> Tensor:
    """`binary_cross_entropy_with_logits` on the device's autograd key."""
    others = (target, weight, pos_weight)
    if x.dtype in _HALVES and STATE.settings.numerics != "exact" and not any(_learns(item) for item in others):
        found: Tensor = _Loss.apply(x, *others, reduction)  # type: ignore[no-untyped-call]
        return found
    recorded: Tensor = _recorded(x, *others, reduction)
    return recorded


def _learns(tensor: Maybe) -> bool:
    return tensor is not None and tensor.requires_grad


AUTOGRAD: dict[str, Callable[..., Any]] = {_NAME: loss}
"""Kernel for the autograd key."""

_one_hot_of_int64 = get_kernel("aten::one_hot", "CPU").call_boxed


def one_hot(labels: Tensor, num_classes: int = -1) -> Tensor:
    """`one_hot`, which takes int32 labels on an NPU and then gives int32 (op-plugin: `test_one_hot.py`)."""
    if labels.dtype is not torch.int32:
        found: Tensor = _one_hot_of_int64(CPU_KEYS, labels, num_classes)
        return found
    widened: Tensor = _one_hot_of_int64(CPU_KEYS, labels.long(), num_classes)
    return widened.to(torch.int32)


COMPOSITES: dict[str, Callable[..., Any]] = {"aten::one_hot": one_hot}
"""Kernel for the device's keys: it calls operators."""
