"""Scale and offset of a feature map's int8 form, found by search: `npu_ifmr`; and the sum of parts of channels.

Source: the reference models in the vendor's tests (`test_ifmr.py`, `test_strideadd.py` of op-plugin).
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_LEAST, _GREATEST = -128, 127
_TINY = torch.finfo(torch.float32).eps


def _no_scale(_x: Tensor, least: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(least), torch.empty_like(least)


@implements("npu_ifmr", differentiable=False, meta=_no_scale)
def ifmr(
    x: Tensor,
    least: Tensor,
    greatest: Tensor,
    cumsum: Tensor,
    min_percentile: float,
    max_percentile: float,
    search_start: float,
    search_end: float,
    search_step: float,
    with_offset: bool,
) -> tuple[Tensor, Tensor]:
    """Scale (1,) and offset (1,) with which int8 numbers come nearest to `x`, by the sum of squared differences.

    `cumsum` is the cumulated histogram of x between `least` and `greatest`. The range between the percentiles is
    tried at each factor from `search_start` to `search_end`, exclusive.
    """
    wide, low, high = x.float(), least.float().reshape(()), greatest.float().reshape(())
    shares = cumsum.float() / x.numel()
    first, last = _edge(shares, 1 - min_percentile, low, high), _edge(shares, max_percentile, low, high)
    steps = torch.arange(search_start, search_end, search_step, dtype=torch.float32)
    if with_offset:
        first, last = first.clamp(max=0), last.clamp(min=0)
        scales = (last * steps - first) / (_GREATEST - _LEAST)
        scales = torch.where(scales < _TINY, torch.ones_like(scales), scales)
        offsets = -((first / scales).round() - _LEAST)
    else:
        scales = torch.maximum(first.abs(), last.abs()) * steps / _GREATEST
        offsets = torch.zeros_like(scales)
    losses = torch.stack([_loss(wide, scale, offset) for scale, offset in zip(scales, offsets, strict=True)])
    best = losses.argmin()
    return scales[best].reshape(least.shape).to(least.dtype), offsets[best].reshape(least.shape).to(least.dtype)


def _edge(shares: Tensor, percentile: float, low: Tensor, high: Tensor) -> Tensor:
    """Return where the cumulated histogram reaches the percentile, between `low` and `high`."""
    num_below = (shares < torch.tensor(percentile, dtype=torch.float32)).sum().float()
    return num_below / shares.numel() * (high - low) + low


def _loss(x: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    quantised = ((x / scale).round() + offset).clamp(_LEAST, _GREATEST)
    return ((quantised - offset) * scale - x).square().sum()


_C0 = 16
"""Channels of one block of NC1HWC0."""


def _no_sum(x: Tensor, _other: Tensor, _first: float, _second: float, length: float) -> Tensor:
    return x.new_empty((x.shape[0], int(length) * _C0, *x.shape[2:]))


@implements("npu_stride_add", differentiable=False, meta=_no_sum)
def stride_add(x: Tensor, other: Tensor, first: float, second: float, length: float) -> Tensor:
    """`x[:, first:first + length] + other[:, second:second + length]` of NC1HWC0 tensors, then zeros.

    The result has 16 * length blocks, because its size counts channels.
    """
    rule = "both must have 5 dimensions and c1_len blocks from their offset on"
    ok = x.dim() == other.dim() == 5 and first + length <= x.shape[1] and second + length <= other.shape[1]
    expect(ok, "npu_stride_add", rule, f"{tuple(x.shape)} and {tuple(other.shape)}")
    result = x.new_zeros((x.shape[0], int(length) * _C0, *x.shape[2:]))
    result[:, : int(length)] = x.narrow(1, int(first), int(length)) + other.narrow(1, int(second), int(length))
    return result
