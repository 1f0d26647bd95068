"""Dtypes that an NPU's kernel takes and PyTorch's CPU kernel does not: computed in a wider one, and given back.

Halves where the CPU has no kernel for them, integers in a histogram, class labels as int32. What falls back to the
host keeps the CPU kernel's limits, as it does with torch_npu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jumar.device.emulator import policy
from jumar.device.emulator.plans import Call, Plan

Tensor = torch.Tensor
Widths = Mapping[torch.dtype, torch.dtype]

_HALVES: Widths = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_LABELS: Widths = {torch.int32: torch.int64}
_INTEGERS: Widths = dict.fromkeys(
    (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    torch.float64,
)

_WITHOUT_HALVES = """
    _add_relu _add_relu_ _cdist_backward _cdist_forward _ctc_loss _ctc_loss_backward _pdist_backward _pdist_forward
    _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
    avg_pool3d avg_pool3d_backward multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_backward
    multilabel_margin_loss_forward rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_backward
""".split()  # noqa: SIM905 - a page of names reads better without quotes
_WITH_LABELS = "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward".split()  # noqa: SIM905

_WIDTHS: Mapping[str, Widths] = {
    **dict.fromkeys(_WITHOUT_HALVES, _HALVES),
    **dict.fromkeys(_WITH_LABELS, _LABELS),
    "histc": _INTEGERS,
}
"""By operator without overload: which dtype is computed in which; from the dtypes that PyTorch's own tests list."""


def layer(plan: Plan, call: Call) -> Call:
    """Widen what the CPU's kernel cannot take; an operator that takes all, or runs on the host, keeps its call."""
    widths = _WIDTHS.get(plan.name.removeprefix("aten::").partition(".")[0])
    if widths is None or policy.runs_on_host(plan.name):
        return call
    schema = torch._C._get_schema(*plan.name.partition(".")[::2])
    written = [i for i, item in enumerate(schema.arguments) if item.alias_info and item.alias_info.is_write]

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
