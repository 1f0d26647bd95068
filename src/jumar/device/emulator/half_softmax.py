"""Softmax that takes float16 and gives float32, and its backward, which accelerators have and the CPU does not."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.plans import Call, Plan

Tensor = torch.Tensor
_FORWARD = frozenset({"aten::_softmax", "aten::_log_softmax"})
_BACKWARD = frozenset({"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"})


def layer(plan: Plan, call: Call) -> Call:
    """Cast on the side that is float16; every other operator keeps its call."""
    if plan.name in _FORWARD:

        def forward(keys: Any, x: Tensor, dim: int, half_to_float: bool) -> Any:
            if half_to_float and x.dtype is torch.float16:
                return call(keys, x.float(), dim, False)
            return call(keys, x, dim, half_to_float)

        return forward
    if plan.name in _BACKWARD:

        def backward(keys: Any, gradient: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Any:
            if input_dtype is torch.float16 and gradient.dtype is torch.float32:
                return call(keys, gradient, output, dim, torch.float32).to(torch.float16)
            return call(keys, gradient, output, dim, input_dtype)

        return backward
    return call
