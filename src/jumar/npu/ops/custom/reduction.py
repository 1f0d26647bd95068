"""Extremes with int32 indices, sorting, and sums for batch normalisation over several devices."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.helpers.checks import require
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_max.dim", outputs=(0,))
def maximum(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The greatest values along a dimension and their indices, int32."""
    values, indices = torch.max(x, dim, keepdim)
    return values, indices.to(torch.int32)


@implements("npu_min.dim", outputs=(0,))
def minimum(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The least values along a dimension and their indices, int32."""
    values, indices = torch.min(x, dim, keepdim)
    return values, indices.to(torch.int32)


@implements("npu_scatter", differentiable=False)
def scatter(x: Tensor, indices: Tensor, updates: Tensor, dim: int) -> Tensor:
    """x with one element along `dim` replaced for each index; indices and updates lack that dimension."""
    return x.scatter(dim, indices.long().unsqueeze(dim), updates.to(x.dtype).unsqueeze(dim))


@implements("npu_max_backward", "npu_min_backward", differentiable=False)
def extreme_backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """The gradient at the extremes and 0 elsewhere, of shape `sizes`."""
    if keepdim and len(sizes):
        grad, indices = grad.squeeze(dim), indices.squeeze(dim)
    zeros = grad.new_zeros(tuple(sizes))
    return scatter(zeros, indices, grad, dim) if len(sizes) else grad.reshape(())


@derivative("npu_max.dim", reads_results=True)
def _max_gradient(step: Step) -> dict[str, Tensor]:
    return _by_indices(step, torch.ops.npu.npu_max_backward)


@derivative("npu_min.dim", reads_results=True)
def _min_gradient(step: Step) -> dict[str, Tensor]:
    return _by_indices(step, torch.ops.npu.npu_min_backward)


def _by_indices(step: Step, operator: torch._ops.OpOverloadPacket) -> dict[str, Tensor]:
    x, dim, keepdim = step.arguments.values()
    return {"self": operator(step.gradients[0], dim, step.results[1], x.shape, keepdim)}


@implements("npu_sort_v2", differentiable=False)
def sort(x: Tensor, dim: int, descending: bool) -> Tensor:
    """The values in order along a dimension, without indices."""
    return x.sort(dim, descending)[0]


@implements("batch_norm_reduce", differentiable=False)
def batch_norm_reduce(x: Tensor, _eps: float) -> tuple[Tensor, Tensor]:
    """Sums of x (n, c, ...) and of its squares by channel, (c,), float32."""
    require(x.dim() > 1, f"batch_norm_reduce: The dim input tensor [self] must more than 1, but got {x.dim()}.")
    dims = [dim for dim in range(x.dim()) if dim != 1]
    wide = x.float()
    return wide.sum(dims), wide.square().sum(dims)


@implements("batch_norm_gather_stats_update", differentiable=False)
def batch_norm_gather_stats_update(
    _x: Tensor,
    sums: Tensor,
    squares: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation (c,) from each device's sums and sums of squares (devices, c) and counts (devices,).

    The running statistics are updated in place, the variance as that of a sample.
    """
    num = counts.sum().to(sums.dtype)
    mean = sums.reshape(-1, sums.shape[-1]).sum(0) / num
    variance = squares.reshape(-1, squares.shape[-1]).sum(0) / num - mean.square()
    if running_mean is not None and running_var is not None:
        running_mean.mul_(1 - momentum).add_(momentum * mean)
        running_var.mul_(1 - momentum).add_(momentum * variance * num / (num - 1))
    return mean, torch.rsqrt(variance + eps)
