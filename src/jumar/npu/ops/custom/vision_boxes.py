"""Boxes of detectors: coding of Faster R-CNN and YOLO boxes, and the choice of anchors and samples to train on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_YOLO_EPS = 1e-6
_MAX_YOLO_BOXES = 20480


def _boxes(operator: str, **boxes: Tensor) -> None:
    for name, value in boxes.items():
        expect(
            value.dim() == 2 and value.shape[1] == 4, operator, f"{name} must be of shape (n, 4)", tuple(value.shape)
        )


def _centres(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres and sizes of corner boxes; a box includes its last pixel, so sizes are one larger."""
    return (boxes[:, :2] + boxes[:, 2:]) * 0.5, boxes[:, 2:] - boxes[:, :2] + 1


def _half(x: Tensor) -> Tensor:
    return x.half().float()


@implements("npu_bounding_box_encode", differentiable=False)
def bounding_box_encode(anchors: Tensor, gt_boxes: Tensor, *coefficients: float) -> Tensor:
    """Offsets of (n, 4) corner boxes from their anchors, minus four means and divided by four deviations.

    Offsets are (dx, dy) of the centres in sizes of the anchor, and the logarithms of the ratios of the sizes. They
    are rounded to float16 after each step, whatever the dtype: the vendor's published results are such numbers.
    """
    _boxes("npu_bounding_box_encode", anchor_box=anchors, ground_truth_box=gt_boxes)
    (centre, size), (gt_centre, gt_size) = _centres(wide(anchors)), _centres(wide(gt_boxes))
    offsets = torch.cat([(gt_centre - centre) / size, torch.log(gt_size / size)], 1)
    means, deviations = offsets.new_tensor(coefficients[:4]), offsets.new_tensor(coefficients[4:])
    return _half(_half(_half(offsets) - means) * _half(1 / deviations)).to(anchors.dtype)


@implements("npu_bounding_box_decode", differentiable=False)
def bounding_box_decode(rois: Tensor, deltas: Tensor, *given: Any) -> Tensor:
    """Corner boxes (n, 4) from anchors and offsets, within an image of `max_shape` = (height, width).

    `given` are four means, four deviations, `max_shape` and `wh_ratio_clip`. The logarithms of the size ratios are
    first limited to +-|log(wh_ratio_clip)|.
    """
    name = "npu_bounding_box_decode"
    *coefficients, max_shape, wh_ratio_clip = given
    _boxes(name, rois=rois, deltas=deltas)
    expect(len(max_shape) == 2, name, "max_shape must be (height, width)", list(max_shape))
    expect(wh_ratio_clip > 0, name, "wh_ratio_clip must be positive", wh_ratio_clip)
    centre, size = _centres(wide(rois))
    plain = wide(deltas)
    plain = plain * plain.new_tensor(coefficients[4:]) + plain.new_tensor(coefficients[:4])
    limit = abs(math.log(wh_ratio_clip))
    new_size = size * torch.exp(plain[:, 2:].clamp(-limit, limit))
    new_centre = centre + size * plain[:, :2]
    first, last = new_centre - new_size * 0.5 + 0.5, new_centre + new_size * 0.5 - 0.5
    height, width = max_shape
    last_pixel = plain.new_tensor([width - 1, height - 1] * 2)
    boxes = torch.cat([first, last], 1)
    return torch.minimum(boxes.clamp(min=0), last_pixel).to(rois.dtype)


@implements("npu_yolo_boxes_encode", differentiable=False)
def yolo_boxes_encode(anchors: Tensor, gt_boxes: Tensor, stride: Tensor, _performance_mode: bool) -> Tensor:
    """Training targets of YOLO for (n, 4) corner boxes.

    Centres in cells of `stride` pixels, moved by half a cell and kept within (1e-6, 1 - 1e-6); logarithms of
    the size ratios, which are kept above 1e-6. `performance_mode` only says how precise the device is.
    """
    name = "npu_yolo_boxes_encode"
    _boxes(name, anchor_boxes=anchors, gt_bboxes=gt_boxes)
    expect(anchors.shape[0] <= _MAX_YOLO_BOXES, name, "there must be at most 20480 boxes", anchors.shape[0])
    expect(
        stride.dim() == 1 and stride.shape[0] == gt_boxes.shape[0],
        name,
        "stride must have one number a box",
        tuple(stride.shape),
    )
    expect(not stride.is_floating_point() and stride.dtype != torch.int64, name, "stride must be int32", stride.dtype)
    boxes, gt = wide(anchors), wide(gt_boxes)
    move = (gt[:, :2] + gt[:, 2:] - boxes[:, :2] - boxes[:, 2:]) * 0.5 / stride.unsqueeze(1)
    ratio = (gt[:, 2:] - gt[:, :2]) / (boxes[:, 2:] - boxes[:, :2])
    centre = (move + 0.5).clamp(_YOLO_EPS, 1 - _YOLO_EPS)
    return torch.cat([centre, torch.log(ratio.clamp(min=_YOLO_EPS))], 1).to(gt_boxes.dtype)


@implements("npu_anchor_response_flags", differentiable=False)
def anchor_response_flags(
    gt_boxes: Tensor, featmap_size: Sequence[int], stride: Sequence[int], num_base_anchors: int
) -> Tensor:
    """Flags (height * width * anchors,), uint8: 1 for the anchors of cells that hold the centre of a box.

    The first stride is of x and the second of y. Centres outside the map count for the nearest cell.
    """
    name = "npu_anchor_response_flags"
    _boxes(name, gt_bboxes=gt_boxes)
    expect(len(featmap_size) == 2, name, "featmap_size must be (height, width)", list(featmap_size))
    height, width = featmap_size
    centres = (gt_boxes[:, :2].float() + gt_boxes[:, 2:].float()) * 0.5
    columns = torch.floor(centres[:, 0] / stride[0]).long().clamp(0, width - 1)
    rows = torch.floor(centres[:, 1] / stride[1]).long().clamp(0, height - 1)
    cells = torch.zeros(height * width, dtype=torch.uint8, device=gt_boxes.device)
    cells = cells.index_fill(0, rows * width + columns, 1)
    return cells.repeat_interleave(num_base_anchors)


@implements("npu_grid_assign_positive", differentiable=False)
def grid_assign_positive(
    assigned: Tensor,
    overlaps: Tensor,
    responsible: Tensor,
    max_overlaps: Tensor,
    argmax_overlaps: Tensor,
    gt_max_overlaps: Tensor,
    gt_argmax_overlaps: Tensor,
    num_gts: int,
    pos_iou_thr: float,
    min_pos_iou: float,
    gt_max_assign_all: bool,
) -> Tensor:
    """Give boxes their ground truth, as the grid assigner of MMDetection does after it has found negatives.

    A responsible box whose best overlap is above `pos_iou_thr` gets the number, from 1, of its best ground
    truth. Then each ground truth whose best overlap is above `min_pos_iou` takes its best responsible box, or
    all that are as good with `gt_max_assign_all`; a later one wins.
    """
    flags = responsible.bool()
    positive = (max_overlaps > pos_iou_thr) & flags
    found = torch.where(positive, argmax_overlaps.to(assigned.dtype) + 1, assigned)
    best = gt_max_overlaps > min_pos_iou
    if gt_max_assign_all:
        taken = (overlaps == gt_max_overlaps.unsqueeze(1)) & flags & best.unsqueeze(1)
    else:
        chosen = torch.nn.functional.one_hot(gt_argmax_overlaps.long(), assigned.shape[0]).bool()
        taken = chosen & flags & best.unsqueeze(1)
    taken = taken[:num_gts]
    numbers = torch.arange(1, taken.shape[0] + 1, device=found.device).unsqueeze(1)
    last = (taken * numbers).amax(0) if taken.shape[0] else torch.zeros_like(positive, dtype=torch.int64)
    return torch.where(last > 0, last.to(found.dtype), found)


def _no_sample(labels: Tensor, _per_images: int, _positive_fraction: float) -> Tensor:
    return torch.empty_like(labels)


@implements("npu_sub_sample", differentiable=False, meta=_no_sample)
def sub_sample(labels: Tensor, per_images: int, positive_fraction: float) -> Tensor:
    """Keep a random sample of labels and set the others to -1.

    At most `per_images * positive_fraction` positive ones (above 0), then zeros up to `per_images`.
    """
    expect(labels.dim() == 1, "npu_sub_sample", "the labels must have one dimension", f"{labels.dim()}")
    positive, negative = (labels > 0).nonzero().flatten(), (labels == 0).nonzero().flatten()
    num_positive = min(positive.numel(), int(per_images * positive_fraction))
    found = torch.full_like(labels, -1)
    for candidates, num in ((positive, num_positive), (negative, per_images - num_positive)):
        kept = candidates[torch.randperm(candidates.numel())[:num]]
        found[kept] = labels[kept]
    return found


def _no_choice(x: Tensor, count: int, _seed: int, _seed2: int) -> tuple[Tensor, Tensor]:
    return x.new_empty((count, x.dim()), dtype=torch.int32), x.new_empty(count)


@implements("npu_random_choice_with_mask", differentiable=False, meta=_no_choice)
def random_choice_with_mask(x: Tensor, count: int, seed: int, seed2: int) -> tuple[Tensor, Tensor]:
    """Indices (count, dims), int32, of randomly chosen true elements, and which rows of them are valid.

    Rows after the last true element are 0 and invalid. A seed other than 0 fixes the choice, not to the device's.
    """
    name = "npu_random_choice_with_mask"
    expect(x.dtype == torch.bool, name, "the tensor must be bool", x.dtype)
    expect(1 <= x.dim() <= 5, name, "the tensor must have 1 to 5 dimensions", x.dim())
    expect(count > 0, name, "count must be greater than 0", count)
    generator = torch.Generator().manual_seed(hash((seed, seed2)) & (2**63 - 1)) if seed or seed2 else None
    true = x.nonzero()
    chosen = true[torch.randperm(true.shape[0], generator=generator)[:count]].to(torch.int32)
    indices = chosen.new_zeros(count, x.dim())
    indices[: chosen.shape[0]] = chosen
    return indices, torch.arange(count) < chosen.shape[0]
