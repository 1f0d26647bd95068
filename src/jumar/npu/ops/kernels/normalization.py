"""The parts of synchronised batch normalisation, which PyTorch has for accelerators only.

Inputs are (N, C, *); statistics are per channel over all other dimensions. Formulas: Ioffe and Szegedy,
"Batch Normalization" (2015), with Chan's rule for joining the variances of several devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.dispatch.arguments import composed
from jumar.npu.ops.helpers.checks import wide

Tensor = torch.Tensor
Maybe = Tensor | None


def _others(tensor: Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view([1, -1] + [1] * (like.dim() - 2))


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`batch_norm_stats`: mean and 1 / sqrt(variance + eps) of each channel."""
    variance, mean = torch.var_mean(wide(input), _others(input), correction=0)
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
    weights = counts.to(mean.dtype).view(-1, 1)
    total = weights.sum()
    joined = (mean * weights).sum(0) / total
    squares = ((invstd.pow(-2) - eps + (mean - joined).square()) * weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(joined.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = squares / (total - 1).clamp(min=1)
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return joined, (squares / total + eps).rsqrt()


def elemt(input: Tensor, weight: Maybe, bias: Maybe, mean: Tensor, invstd: Tensor, _eps: float) -> Tensor:
    """`batch_norm_elemt`: (input - mean) * invstd * weight + bias."""
    result = (wide(input) - _per_channel(mean, input)) * _per_channel(invstd, input)
    if weight is not None:
        result = result * _per_channel(wide(weight), input)
    if bias is not None:
        result = result + _per_channel(wide(bias), input)
    return result.to(input.dtype)


def elemt_out(*args: Any, out: Tensor) -> Tensor:
    """`batch_norm_elemt.out`: the same, written into `out`."""
    return out.copy_(torch.batch_norm_elemt(*args))


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
    gradient = wide(grad_out)
    sum_dy = gradient.sum(_others(input))
    sum_dy_xmu = (gradient * (wide(input) - _per_channel(mean, input))).sum(_others(input))
    dtype = sum_dy.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else None,
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
    total = count.sum()
    slope = _per_channel(invstd if weight is None else invstd * wide(weight), input)
    projection = (wide(input) - _per_channel(mean, input)) * _per_channel(invstd.square() * sum_dy_xmu / total, input)
    result = (wide(grad_out) - _per_channel(sum_dy / total, input) - projection) * slope
    return result.to(input.dtype)


_PARTS = (stats, gather_stats_with_counts, elemt, backward_reduce, backward_elemt)
KERNELS: dict[str, Callable[..., Any]] = {
    **{f"aten::batch_norm_{part.__name__}": composed(part) for part in _PARTS},
    "aten::batch_norm_elemt.out": elemt_out,
}
