"""The parts of synchronised batch normalisation, which PyTorch has for accelerators only.

Inputs are (N, C, *); statistics are per channel over all other dimensions. Formulas: Ioffe and Szegedy,
"Batch Normalization" (2015), with Chan's rule for joining the variances of several devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.dispatch.arguments import composed

Tensor = torch.Tensor
Maybe = Tensor | None


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _others(tensor: Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view([1, -1] + [1] * (like.dim() - 2))


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`batch_norm_stats`: mean and 1 / sqrt(variance + eps) of each channel."""
    x = input
    x = _wide(x)
    variance, mean = torch.var_mean(x, _others(x), correction=0)
    return mean, (variance + eps).rsqrt()


def gather_stats_with_counts(
    _input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Maybe,
    running_var: Maybe,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """`batch_norm_gather_stats_with_counts`: statistics over all devices; `mean` is (devices, C)."""
    means, invstds, running, running_square, weights = mean, invstd, running_mean, running_var, counts
    weights = weights.to(means.dtype).view(-1, 1)
    total = weights.sum()
    joined = (means * weights).sum(0) / total
    squares = (invstds.pow(-2) - eps + (means - joined).square()) * weights
    variance = squares.sum(0) / total
    if running is not None:
        running.mul_(1 - momentum).add_(joined.to(running.dtype), alpha=momentum)
    if running_square is not None:
        unbiased = squares.sum(0) / (total - 1).clamp(min=1)
        running_square.mul_(1 - momentum).add_(unbiased.to(running_square.dtype), alpha=momentum)
    return joined, (variance + eps).rsqrt()


def elemt(input: Tensor, weight: Maybe, bias: Maybe, mean: Tensor, invstd: Tensor, _eps: float) -> Tensor:
    """`batch_norm_elemt`: (input - mean) * invstd * weight + bias."""
    x, scale, shift, centre, inverse = input, weight, bias, mean, invstd
    result = (_wide(x) - _per_channel(centre, x)) * _per_channel(inverse, x)
    if scale is not None:
        result = result * _per_channel(_wide(scale), x)
    if shift is not None:
        result = result + _per_channel(_wide(shift), x)
    return result.to(x.dtype)


def backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Maybe,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Maybe, Maybe, Maybe, Maybe]:
    """`batch_norm_backward_reduce`: sums of dy and dy * (x - mean), gradients of weight and bias."""
    gradient, x, centre, inverse, scale = grad_out, input, mean, invstd, weight
    gradient, x = _wide(gradient), _wide(x)
    sum_dy = gradient.sum(_others(x))
    sum_dy_xmu = (gradient * (x - _per_channel(centre, x))).sum(_others(x))
    dtype = sum_dy.dtype if scale is None else scale.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * inverse).to(dtype) if weight_g else None,
        sum_dy.to(dtype, copy=True) if bias_g else None,
    )


def backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Maybe,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """`batch_norm_backward_elemt`: the gradient of the input, from sums over all devices."""
    gradient, x, centre, inverse, scale, sums, sums_xmu, counts = (
        grad_out,
        input,
        mean,
        invstd,
        weight,
        sum_dy,
        sum_dy_xmu,
        count,
    )
    total = counts.sum()
    wide = _wide(x)
    slope = _per_channel(inverse if scale is None else inverse * _wide(scale), x)
    projection = (wide - _per_channel(centre, x)) * _per_channel(inverse.square() * sums_xmu / total, x)
    result = (_wide(gradient) - _per_channel(sums / total, x) - projection) * slope
    return result.to(x.dtype)


_PARTS = (stats, gather_stats_with_counts, elemt, backward_reduce, backward_elemt)
KERNELS: dict[str, Callable[..., Any]] = {f"aten::batch_norm_{part.__name__}": composed(part) for part in _PARTS}
