"""`npu_quant_conv2d`: a convolution of int8 whose integer sums a scale turns into floats.

Sources: the adapter's test of the operator and its checks of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from jumar.npu.ops.helpers.checks import expect, refuse, require_dtype
from jumar.npu.ops.helpers.low_bits import dtype_of, scale_of
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_RESULTS = (torch.float16, torch.bfloat16, torch.float32)


@implements("npu_quant_conv2d", differentiable=False)
def quant_conv2d(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    offset_x: int,
    _round_mode: str,
    output_dtype: int | None,
    bias: Tensor | None,
    offset: Tensor | None,
    input_dtype: int | None,
    weight_dtype: int | None,
) -> Tensor:
    """Return (convolution + bias) * scale as float16, bfloat16 or float32, (n, out_channels, height, width).

    input is (n, channels, height, width), padded with `offset_x`; scale is (out_channels,), float32 or packed
    int64; the integer bias is added to the sums, which are exact. `round_mode` is of 8-bit floats only.
    """
    operator = "npu_quant_conv2d"
    if input_dtype is not None or weight_dtype is not None:
        refuse(operator, "input_dtype and weight_dtype (hifloat8)", "use int8 tensors")
    require_dtype(operator, (torch.int8,), input=input, weight=weight)
    expect(input.dim() == 4 and weight.dim() == 4, operator, "input and weight must have 4 dimensions", input.dim())
    expect(offset is None, operator, "offset must be None", offset)
    expect(output_dtype is not None, operator, "output_dtype cannot be None", output_dtype)
    expect(0 not in strides, operator, "stride cannot contain 0", list(strides))
    dtype = dtype_of(output_dtype, torch.float16, operator)
    expect(dtype in _RESULTS, operator, "output_dtype must be float16, bfloat16 or float32", dtype)
    padded = functional.pad(input.double(), (pads[1], pads[1], pads[0], pads[0]), value=float(offset_x))
    sums = functional.conv2d(padded, weight.double(), None, list(strides), 0, list(dilations), groups)
    if bias is not None:
        sums = sums + bias.double().view(-1, 1, 1)
    return (sums.float() * scale_of(scale).view(-1, 1, 1)).to(dtype)
