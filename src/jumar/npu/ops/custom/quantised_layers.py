"""Normalisations and activations that quantise their results.

Sources: the adapter's pages of these operators. Values are rounded half to even (rint).
"""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.ops.custom.norm import rms_scaled
from jumar.npu.ops.custom.quantisation import by_token, smoothed, stored, target_of
from jumar.npu.ops.helpers.checks import expect, refuse, refuse_given, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


@implements("npu_rms_norm_quant", differentiable=False)
def rms_norm_quant(
    x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, epsilon: float, *, dst_dtype: int | None
) -> Tensor:
    """`round((rms_norm(x) * gamma + beta) * scale + offset)` as int8; scale and offset have one element."""
    operator = "npu_rms_norm_quant"
    four_bits, _, _ = target_of(operator, dst_dtype)
    scaled, _ = rms_scaled(operator, x, gamma, epsilon)
    values = (scaled * wide(gamma) + wide(beta)) * wide(scale) + offset.float()
    return stored(values.round(), four_bits, operator)


@implements("npu_add_rms_norm_quant", differentiable=False)
def add_rms_norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
    *,
    axis: int,
    epsilon: float,
    div_mode: bool,
    dst_type: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """RMS norm of `x1 + x2`, quantised by one or two sets of scales; results: y1, y2, the sum.

    With `div_mode` values are divided by the scales, else multiplied. Without `scales2`, y2 is zeros.
    """
    operator = "npu_add_rms_norm_quant"
    expect(axis == -1, operator, "axis must be -1", axis)
    four_bits, _, _ = target_of(operator, dst_type)
    added = x1 + x2
    scaled, _ = rms_scaled(operator, added, gamma, epsilon)
    y = scaled * wide(gamma) if beta is None else scaled * wide(gamma) + wide(beta)

    def quantised(scales: Tensor, zeros: Tensor | None) -> Tensor:
        values = y / wide(scales) if div_mode else y * wide(scales)
        return stored((values if zeros is None else values + zeros.float()).round(), four_bits, operator)

    first = quantised(scales1, zero_points1)
    second = torch.zeros_like(first) if scales2 is None else quantised(scales2, zero_points2)
    return first, second, added


@implements("npu_add_rms_norm_dynamic_quant", differentiable=False)
def add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    smooth_scale1: Tensor | None,
    smooth_scale2: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    **others: Any,
) -> tuple[Tensor, ...]:
    """RMS norm of `x1 + x2`, quantised a token at a time; results: y1, y2, the sum, scale1, scale2.

    y2 and scale2 are what `smooth_scale2` gives, else empty.
    """
    operator = "npu_add_rms_norm_dynamic_quant"
    refuse_given(operator, "leave it out", **others)
    added = x1 + x2
    scaled, _ = rms_scaled(operator, added, gamma, epsilon)
    y = scaled * wide(gamma) if beta is None else scaled * wide(gamma) + wide(beta)

    def quantised(smooth: Tensor | None) -> tuple[Tensor, Tensor]:
        return by_token(y if smooth is None else y * wide(smooth))

    first, scale1 = quantised(smooth_scale1)
    if smooth_scale2 is None:
        return first, first.new_empty(0), added, scale1, scale1.new_empty(0)
    second, scale2 = quantised(smooth_scale2)
    return first, second, added, scale1, scale2


@implements("npu_swiglu_quant", differentiable=False)
def swiglu_quant(
    x: Tensor,
    *,
    smooth_scales: Tensor | None,
    offsets: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    group_list_type: int,
    dst_type: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    """SwiGLU of the last dimension, then dynamic quantisation to int8 a token at a time; results: y, scales.

    `activate_left` says which half goes through silu. `group_index` holds the ends of the groups that share
    a row of `smooth_scales`, or their sizes with `group_list_type` 1.
    """
    operator = "npu_swiglu_quant"
    if quant_mode != 1 or dst_type not in (None, torch.int8):
        refuse(operator, "static quantisation and 4-bit results", "use quant_mode=1 and int8")
    refuse_given(operator, "leave it out", offsets=offsets)
    left, right = wide(x).chunk(2, -1)
    active, other = (left, right) if activate_left else (right, left)
    values = torch.nn.functional.silu(active) * other
    ends = group_index.cumsum(0) if group_index is not None and group_list_type == 1 else group_index
    values = smoothed(values, smooth_scales if ends is not None or smooth_scales is None else smooth_scales[0], ends)
    return by_token(values)
