"""Features of regions: `npu_roi_align` and `npu_ps_roi_pooling`, and their adjoints.

Both are averages over a grid of rows and columns, so a region's result is `rows @ features @ columns.T` with one
weight matrix for each axis, and the gradient is `rows.T @ gradient @ columns`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, instead

Tensor = torch.Tensor
_SHORTEST = 0.1
"""Pixels that a pooled region is long at least."""


def _interpolation(start: float, length: float, num_bins: int, num_samples: int, size: int) -> Tensor:
    """Return weights (bins, size) of linear interpolation at the samples of each bin, averaged.

    A sample more than a pixel outside has no weight, one nearer takes the value of the edge.
    """
    bin_length = length / num_bins
    num = num_samples if num_samples > 0 else math.ceil(bin_length)
    if num <= 0:
        return torch.zeros(num_bins, size)
    steps = (torch.arange(num) + 0.5) * bin_length / num
    at = start + torch.arange(num_bins).unsqueeze(1) * bin_length + steps
    inside = (at >= -1) & (at <= size)
    at = at.clamp(0, size - 1)
    low = at.floor().long()
    high = (low + 1).clamp(max=size - 1)
    share = at - low
    weights = torch.zeros(num_bins, size)
    weights.scatter_add_(1, low, (1 - share) * inside)
    weights.scatter_add_(1, high, share * inside)
    return weights / num


def _aligned(roi: Sequence[float], scale: float, mode: int) -> tuple[float, float, float, float]:
    """Return start and length of a region (x1, y1, x2, y2) on the feature map: x, y, width, height."""
    x1, y1, x2, y2 = (value * scale for value in roi)
    if mode >= 2:
        return x1 - 0.5, y1 - 0.5, x2 - x1, y2 - y1
    more = scale if mode == 1 else 0.0
    return x1, y1, max(x2 + more - x1, 1.0), max(y2 + more - y1, 1.0)


def _align_weights(
    roi: Sequence[float], scale: float, bins: tuple[int, int], samples: int, mode: int, size: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    x, y, width, height = _aligned(roi, scale, mode)
    rows = _interpolation(y, height, bins[0], samples, size[0])
    return rows, _interpolation(x, width, bins[1], samples, size[1])


def _check(name: str, rois: Tensor, mode: int) -> None:
    expect(rois.dim() == 2 and rois.shape[1] == 5, name, "rois must be of shape (n, 5)", tuple(rois.shape))
    expect(0 <= mode <= 3, name, "roi_end_mode must be 0, 1, 2 or 3", mode)


def _no_features(x: Tensor, rois: Tensor, _scale: float, height: int, width: int, *_: int) -> Tensor:
    return x.new_empty(rois.shape[0], x.shape[1], height, width)


@implements("npu_roi_align", differentiable=False, meta=_no_features)
def roi_align(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int,
    roi_end_mode: int,
) -> Tensor:
    """Average of `sample_num`^2 interpolated samples a bin, (n, c, height, width); 0 samples: one a pixel.

    x (b, c, h, w), rois (n, 5): number of the image, x1, y1, x2, y2. roi_end_mode: 0 takes the coordinates as
    they are, 1 adds a pixel to the end, 2 and 3 move them by half a pixel; 0 and 1 lengthen a region to a pixel.
    The gradient is another operator, `npu_roi_alignbk`.
    """
    _check("npu_roi_align", rois, roi_end_mode)
    found = _no_features(x, rois, 0, pooled_height, pooled_width).float()
    size, bins = (x.shape[2], x.shape[3]), (pooled_height, pooled_width)
    for n, (image, *roi) in enumerate(rois.float().tolist()):
        rows, columns = _align_weights(roi, spatial_scale, bins, sample_num, roi_end_mode, size)
        found[n] = rows @ x[int(image)].float() @ columns.t()
    return found.to(x.dtype)


def _no_image(grad: Tensor, _rois: Tensor, shape: Sequence[int], *_: object) -> Tensor:
    return grad.new_empty(tuple(shape))


@implements("npu_roi_alignbk", differentiable=False, meta=_no_image)
def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    xdiff_shape: Sequence[int],
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sample_num: int,
    roi_end_mode: int | None,
) -> Tensor:
    """The gradient of the features of `npu_roi_align`, of shape `xdiff_shape`; without a mode it is 1."""
    mode = 1 if roi_end_mode is None else roi_end_mode
    _check("npu_roi_alignbk", rois, mode)
    found = grad.new_zeros(tuple(xdiff_shape), dtype=torch.float32)
    size, bins = (xdiff_shape[2], xdiff_shape[3]), (pooled_height, pooled_width)
    for n, (image, *roi) in enumerate(rois.float().tolist()):
        rows, columns = _align_weights(roi, spatial_scale, bins, sample_num, mode, size)
        found[int(image)] += rows.t() @ grad[n].float() @ columns
    return found.to(grad.dtype)


def _pool_weights(first: float, last: float, scale: float, group: int, size: int) -> Tensor:
    """Return weights (group, size): the average over the pixels of each bin, which may share some."""
    start = round(first) * scale
    length = max(round(last + 1) * scale - start, _SHORTEST)
    edges = [start + i * length / group for i in range(group + 1)]
    weights = torch.zeros(group, size)
    for i in range(group):
        low = min(max(math.floor(edges[i]), 0), size)
        high = min(max(math.ceil(edges[i + 1]), 0), size)
        if high > low:
            weights[i, low:high] = 1 / (high - low)
    return weights


def _pooled(rois: Tensor, scale: float, group: int, size: tuple[int, int]) -> list[tuple[int, Tensor, Tensor]]:
    """Return image, row weights and column weights of every region of (batch, 5, n)."""
    found = []
    for image, x1, y1, x2, y2 in rois.float().transpose(1, 2).reshape(-1, 5).tolist():
        rows, columns = _pool_weights(y1, y2, scale, group, size[0]), _pool_weights(x1, x2, scale, group, size[1])
        found.append((int(image), rows, columns))
    return found


def _no_pools(_x: Tensor, rois: Tensor, _scale: float, group: int, output_dim: int) -> Tensor:
    return _x.new_empty(rois.shape[0] * rois.shape[2], output_dim, group, group)


@implements("npu_ps_roi_pooling", meta=_no_pools)
def ps_roi_pooling(x: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int) -> Tensor:
    """Position-sensitive pooling, (batch * n, output_dim, group, group): each bin averages a channel of its own.

    x (batch, output_dim * group^2, h, w); rois (batch, 5, n): number of the image, x1, y1, x2, y2.
    """
    name = "npu_ps_roi_pooling"
    expect(rois.dim() == 3 and rois.shape[1] == 5, name, "rois must be of shape (batch, 5, n)", tuple(rois.shape))
    channels = output_dim * group_size**2
    expect(x.shape[1] == channels, name, f"x must have output_dim * group_size^2 = {channels} channels", x.shape[1])
    found = _no_pools(x, rois, 0, group_size, output_dim).float()
    for n, (image, rows, columns) in enumerate(_pooled(rois, spatial_scale, group_size, (x.shape[2], x.shape[3]))):
        if not 0 <= image < x.shape[0]:  # a region of an image that is not there pools zeros
            found[n] = 0
            continue
        maps = x[image].float().view(output_dim, group_size, group_size, *x.shape[2:])
        found[n] = torch.einsum("dpqhw,ph,qw->dpq", maps, rows, columns)
    return found.to(x.dtype)


def _no_scores(grad: Tensor, rois: Tensor, _s: float, group: int, output_dim: int, size: Sequence[int]) -> Tensor:
    return grad.new_empty(rois.shape[0], group**2 * output_dim, size[0], size[1])


@implements("npu_ps_roi_pooling_backward", differentiable=False, meta=_no_scores)
def ps_roi_pooling_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int, input_size: Sequence[int]
) -> Tensor:
    """The gradient of the score maps, (batch, output_dim * group^2, h, w) with `input_size` = (h, w)."""
    size = (input_size[0], input_size[1])
    found = _no_scores(grad, rois, 0, group_size, output_dim, size).float().zero_()
    for n, (image, rows, columns) in enumerate(_pooled(rois, spatial_scale, group_size, size)):
        if not 0 <= image < found.shape[0]:
            continue
        found[image] += torch.einsum("dpq,ph,qw->dpqhw", grad[n].float(), rows, columns).reshape(-1, *size)
    return found.to(grad.dtype)


@derivative("npu_ps_roi_pooling")
def _ps_roi_pooling_gradient(step: Step) -> dict[str, Tensor]:
    x, *rest = step.arguments.values()
    operator = torch.ops.npu.npu_ps_roi_pooling_backward
    return {"self": operator(step.gradients[0], *rest, x.shape[2:])}


instead("crop with slices and torch.nn.functional.interpolate, or npu_roi_align", "crop_and_resize")
instead("normalise with torch operators: (image - mean) / deviation", "image_normalize", "image_normalize_")
instead("make the tensor on the CPU with torchvision and move it with .npu()", "img_to_tensor", "decode_jpeg")
