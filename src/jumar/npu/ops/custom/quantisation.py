"""Quantising and dequantising activations.

Sources: the adapter's pages of these operators. Values are rounded half to even (rint).
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers import low_bits
from jumar.npu.ops.helpers.checks import FLOATING, HALF, expect, refuse, require_dtype, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


@implements("npu_quantize", differentiable=False)
def quantize(x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: int, axis: int, div_mode: bool) -> Tensor:
    """`round(x / scales) + zero_points`, or `round(x * scales + zero_points)` without `div_mode`.

    `scales` has one element, or one for each of dimension `axis`. `dtype` is int8, uint8, int32, their
    quantised kin, or quint4x2, which gives eight 4-bit integers in one int32.
    """
    operator = "npu_quantize"
    require_dtype(operator, FLOATING, input=x)
    target = low_bits.dtype_of(dtype, torch.int8, operator)
    if scales.numel() != 1:
        rule = f"scales must have one element or those of dimension {axis}"
        expect(scales.numel() == x.shape[axis], operator, rule, scales.numel())
        shape = [1] * x.dim()
        shape[axis] = -1
        scales = scales.reshape(shape)
        zero_points = None if zero_points is None else zero_points.reshape(shape)
    else:
        scales = scales.reshape(())
        zero_points = None if zero_points is None else zero_points.reshape(-1)[0]
    zero = 0.0 if zero_points is None else zero_points.float()
    if div_mode:
        expect(dtype != low_bits.QUINT4X2, operator, "quint4x2 needs div_mode=False", div_mode)
        values = (wide(x) / scales.float()).round() + zero
    else:
        values = (wide(x) * scales.float() + zero).round()
    if dtype == low_bits.QUINT4X2:
        return low_bits.pack_int4(values.clamp(-8, 7), operator)
    limits = torch.iinfo(target)
    return values.clamp(limits.min, limits.max).to(target)


def smoothed(x: Tensor, smooth: Tensor | None, group_index: Tensor | None) -> Tensor:
    """Return `x` in float32 times its smoothing scales: one row for all, or one a group of rows."""
    wider = wide(x)
    if smooth is None:
        return wider
    if group_index is None:
        return wider * wide(smooth)
    rows = wider.reshape(-1, x.shape[-1])
    places = torch.arange(rows.shape[0], device=x.device)
    # NOTE: group_index holds where each group ends; rows beyond the last group keep their values.
    groups = torch.searchsorted(group_index.long(), places, right=True)
    padded = torch.cat([wide(smooth), wide(smooth).new_ones(1, smooth.shape[-1])])
    return (rows * padded.index_select(0, groups)).reshape(x.shape)


def by_token(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 values and their scales, one a token: the greatest magnitude of a row becomes 127."""
    scale = values.abs().amax(-1, keepdim=True) / 127.0
    return low_bits.to_int8((values / scale).masked_fill(scale == 0, 0.0)), scale.squeeze(-1)


def _dims(operator: str, mode: str, x: Tensor) -> list[int]:
    """Return the dimensions that share a scale."""
    expect(mode in ("pertoken", "perchannel", "pertensor"), operator, "quant_mode must be a known one", mode)
    return {"pertoken": [-1], "perchannel": [-2], "pertensor": list(range(x.dim()))}[mode]


def target_of(operator: str, number: int | None) -> tuple[bool, float, float]:
    """Return whether results have 4 bits, the greatest of them, and how many steps there are."""
    if number in (None, low_bits.INT8, 12):
        return False, 127.0, 255.0
    if number == low_bits.QUINT4X2:
        return True, 7.0, 15.0
    refuse(operator, f"the dtype number {number}", "use int8 or quint4x2")
    raise AssertionError


def stored(values: Tensor, four_bits: bool, operator: str) -> Tensor:
    """Return rounded values as int8, or as 4-bit integers in words."""
    return low_bits.pack_int4(values.clamp(-8, 7), operator) if four_bits else low_bits.to_int8(values)


def _smoothed_input(
    operator: str, x: Tensor, smooth: Tensor | None, group_index: Tensor | None, dst_type_max: float
) -> Tensor:
    require_dtype(operator, HALF, input=x, smooth_scales=smooth)
    if dst_type_max:
        refuse(operator, "dst_type_max", "leave it at 0")
    return smoothed(x, smooth, group_index)


@implements("npu_dynamic_quant", differentiable=False)
def dynamic_quant(
    x: Tensor,
    *,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    dst_type: int | None,
    quant_mode: str,
    dst_type_max: float,
) -> tuple[Tensor, Tensor]:
    """Quantise symmetrically with scales from the data: the greatest magnitude of a row becomes 127 (or 7).

    Results: the integers and the scales (float32), one a token, channel or tensor by `quant_mode`.
    """
    operator = "npu_dynamic_quant"
    four_bits, greatest, _ = target_of(operator, dst_type)
    values = _smoothed_input(operator, x, smooth_scales, group_index, dst_type_max)
    dims = _dims(operator, quant_mode, x)
    scale = values.abs().amax(dims, keepdim=True) / greatest
    result = (values / scale).masked_fill(scale == 0, 0.0).round()
    return stored(result, four_bits, operator), _squeezed(scale, dims, x)


def _squeezed(scale: Tensor, dims: list[int], x: Tensor) -> Tensor:
    return scale.reshape(1) if len(dims) == x.dim() else scale.squeeze(dims[0])


@implements("npu_dynamic_quant_asymmetric", differentiable=False)
def dynamic_quant_asymmetric(
    x: Tensor,
    *,
    smooth_scales: Tensor | None,
    group_index: Tensor | None,
    dst_type: int | None,
    quant_mode: str,
    dst_type_max: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise with scales and offsets from the data: a row's least and greatest value span the integers.

    Results: the integers, the scales and the offsets (float32); `x = (integer - offset) * scale`.
    """
    operator = "npu_dynamic_quant_asymmetric"
    four_bits, greatest, num_steps = target_of(operator, dst_type)
    values = _smoothed_input(operator, x, smooth_scales, group_index, dst_type_max)
    dims = _dims(operator, quant_mode, x)
    top = values.amax(dims, keepdim=True)
    scale = (top - values.amin(dims, keepdim=True)) / num_steps
    offset = greatest - top / scale
    result = (values / scale + offset).round()
    return stored(result, four_bits, operator), _squeezed(scale, dims, x), _squeezed(offset, dims, x)


@implements("npu_anti_quant", differentiable=False)
def anti_quant(
    x: Tensor, scale: Tensor, *, offset: Tensor | None, dst_dtype: int | None, src_dtype: int | None
) -> Tensor:
    """`(x + offset) * scale` in float16 or bfloat16; `x` is int8, or int32 that holds eight 4-bit integers."""
    operator = "npu_anti_quant"
    require_dtype(operator, (torch.int8, torch.int32), x=x)
    if src_dtype not in (None, low_bits.INT8, low_bits.QUINT4X2):
        refuse(operator, f"the dtype number {src_dtype}", "use int8 or quint4x2")
    target = low_bits.dtype_of(dst_dtype, torch.float16, operator)
    require_dtype(operator, HALF, result=torch.empty(0, dtype=target))
    values = (low_bits.unpack_int4(x) if x.dtype == torch.int32 else x).float()
    if offset is not None:
        values = values + wide(offset)
    return (values * wide(scale)).to(target)


@implements("npu_trans_quant_param", differentiable=False)
def trans_quant_param(scale: Tensor, offset: Tensor | None, round_mode: int | None) -> Tensor:
    """Float32 scales and offsets as the int64 words that quantised matrix products take."""
    operator = "npu_trans_quant_param"
    require_dtype(operator, (torch.float32,), scale=scale, offset=offset)
    if round_mode:
        refuse(operator, "rounding scales", "leave round_mode at 0, which cuts them to 19 bits")
    if scale.is_meta:
        return torch.empty(scale.shape, dtype=torch.int64, device=scale.device)
    if offset is not None and offset.numel() > scale.numel():
        scale = scale.expand(offset.shape)
    return low_bits.pack_scale(scale, offset)


@implements("npu_convert_weight_to_int4pack", differentiable=False)
def convert_weight_to_int4pack(weight: Tensor, _inner_k_tiles: int) -> Tensor:
    """Int32 values from -8 to 7 packed eight to a word along the last dimension."""
    operator = "npu_convert_weight_to_int4pack"
    require_dtype(operator, (torch.int32,), weight=weight)
    return low_bits.pack_int4(weight, operator)


@implements("npu_dequant_bias", differentiable=False)
def dequant_bias(
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    *,
    output_dtype: torch.dtype | None,
) -> Tensor:
    """`x * weight_scale * activation_scale + bias` of the int32 sums of a matrix product (M, N).

    An int32 bias is added before the scales. `weight_scale` is (N,), `activation_scale` (M,).
    """
    operator = "npu_dequant_bias"
    require_dtype(operator, (torch.int32,), x=x)
    sums = x.long() + bias.long() if bias is not None and bias.dtype == torch.int32 else x
    values = sums.float() * wide(weight_scale)
    if activation_scale is not None:
        values = values * activation_scale.float().reshape(-1, 1)
    if bias is not None and bias.dtype != torch.int32:
        values = values + wide(bias)
    return values.to(output_dtype or torch.float16)
