"""Dtypes that an NPU's kernel takes and PyTorch's CPU kernel does not: computed in a wider one, and given back.

Halves where the CPU has no kernel for them, integers in a histogram, class labels and `hardsigmoid` of int32. What
falls back to the host keeps the CPU kernel's limits, as it does with torch_npu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jumar.npu.core.overloads import written_by
from jumar.npu.core.plans import Call, Plan
from jumar.npu.dispatch import policy
from jumar.operators import base_name, functional_name, has

Tensor = torch.Tensor
Widths = Mapping[torch.dtype, torch.dtype]

_HALVES: Widths = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_LABELS: Widths = {torch.int32: torch.int64}
_INTEGERS: Widths = dict.fromkeys(
    (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    torch.float64,
)

_INT32: Widths = {torch.int32: torch.float32}

_WITH_LABELS = ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward")


def _widths(name: str) -> Widths | None:
    """Return which dtype is computed in which; from the dtypes that PyTorch's own tests list."""
    if has(name, "no_half_on_cpu"):
        return _HALVES
    if functional_name(name) == "hardsigmoid":  # op-plugin: `test_hardsigmoid.py`
        return _INT32
    base = base_name(name)
    if base in _WITH_LABELS:
        return _LABELS
    return _INTEGERS if base == "histc" else None


def layer(plan: Plan, call: Call) -> Call:
    """Widen what the CPU's kernel cannot take; an operator that takes all, or runs on the host, keeps its call."""
    widths = _widths(plan.name)
    if widths is None or policy.runs_on_host(plan.name):
        return call
    written = tuple(written_by(plan.name))

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        narrow = next((a.dtype for a in args if isinstance(a, Tensor) and a.dtype in widths), None)
        if narrow is None:
            return call(keys, *args, **kwargs)
        wide = widths[narrow]
        given = [_cast(value, narrow, wide) for value in args]
        named = {name: _cast(value, narrow, wide) for name, value in kwargs.items()}
        result = call(keys, *given, **named)
        for i in written:
            if i < len(args):
                _write(args[i], given[i])
            elif plan.names[i] in kwargs:
                _write(kwargs[plan.names[i]], named[plan.names[i]])
        return _cast(result, wide, narrow)

    return run


def _cast(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """Return tensors of one dtype as another, also inside a tuple; anything else as it is."""
    if isinstance(value, Tensor):
        return value.to(target) if value.dtype is source else value
    if isinstance(value, tuple):
        return tuple(_cast(item, source, target) for item in value)
    return value


def _write(tensor: Tensor, result: Tensor) -> None:
    if tensor is not result:
        tensor.resize_(result.shape).copy_(result)


_FORWARD = frozenset({"aten::_softmax", "aten::_log_softmax"})
_BACKWARD = frozenset({"aten::_softmax_backward_data", "aten::_log_softmax_backward_data"})


def half_softmax_layer(plan: Plan, call: Call) -> Call:
    """Softmax that takes float16 and gives float32, and its backward, which accelerators have and the CPU does not.

    Cast on the side that is float16; every other operator keeps its call.
    """
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
