"""Non-maximum suppression: take boxes in the order of their scores, leave out those that overlap a taken one.

Boxes with the same score are taken in their order. What the overlap is, and when it is too much, differs by
operator; all of these leave out a box whose overlap is greater than the threshold.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.helpers.polygons import corners, intersection_area
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_MAX_BATCH_BOXES = 1000
_TINY = 1e-12
_TINY_AREA = 1e-14


def _take(order: Tensor, overlaps: Callable[[int], Tensor], threshold: float, limit: int) -> list[int]:
    """Return the indices taken, in order, at most `limit`. overlaps(i): IoU of box i with every box."""
    found: list[int] = []
    out = torch.zeros(int(order.max()) + 1 if order.numel() else 0, dtype=torch.bool)
    for index in order.tolist():
        if len(found) == limit:
            break
        if out[index]:
            continue
        found.append(index)
        out |= overlaps(index)[: out.shape[0]] > threshold
    return found


def _by_score(scores: Tensor, candidates: Tensor) -> Tensor:
    chosen = candidates.nonzero().flatten()
    return chosen[scores[chosen].argsort(descending=True, stable=True)]


def _overlap(boxes: Tensor, index: int) -> tuple[Tensor, Tensor]:
    """Return the common area of one corner box with every one, and the area of their union."""
    sides = torch.minimum(boxes[:, 2:], boxes[index, 2:]) - torch.maximum(boxes[:, :2], boxes[index, :2])
    common = sides.clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return common, area + area[index] - common


def _iou(boxes: Tensor, index: int) -> Tensor:
    common, union = _overlap(boxes, index)
    return torch.where(union > 0, common / union, torch.zeros_like(union))


def _no_v4(boxes: Tensor, _scores: Tensor, limit: float, *_: object) -> tuple[Tensor, Tensor]:
    return boxes.new_empty(int(limit), dtype=torch.int32), boxes.new_empty((), dtype=torch.int32)


@implements("npu_nms_v4", differentiable=False, meta=_no_v4)
def nms_v4(
    boxes: Tensor, scores: Tensor, limit: float, iou_threshold: Tensor, scores_threshold: Tensor, _pad: bool
) -> tuple[Tensor, Tensor]:
    """Indices (limit,), int32, of the boxes (n, 4) taken, and how many: those after are 0, with `pad` or without.

    Any two opposite corners name a box. Only scores above the threshold count.
    """
    name = "npu_nms_v4"
    expect(boxes.dim() == 2 and boxes.shape[1] == 4, name, "boxes must be of shape (n, 4)", tuple(boxes.shape))
    expect(scores.shape == boxes.shape[:1], name, "there must be one score a box", tuple(scores.shape))
    plain, values = boxes.float(), scores.float()
    straight = torch.cat([torch.minimum(plain[:, :2], plain[:, 2:]), torch.maximum(plain[:, :2], plain[:, 2:])], 1)
    order = _by_score(values, values > scores_threshold.item())
    taken = _take(order, lambda i: _iou(straight, i), float(iou_threshold), int(limit))
    indices = torch.zeros(int(limit), dtype=torch.int32)
    indices[: len(taken)] = torch.tensor(taken, dtype=torch.int32)
    return indices, torch.tensor(len(taken), dtype=torch.int32)


def _no_mask(boxes: Tensor, _threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    num = boxes.shape[0]
    empty = boxes.new_empty
    return empty(num, 5), empty(num, dtype=torch.int32), empty(num, dtype=torch.uint8)


@implements("npu_nms_with_mask", differentiable=False, meta=_no_mask)
def nms_with_mask(boxes: Tensor, iou_threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes and scores (n, 5), their indices (n,), and 1 for each that is taken, uint8.

    The input is (n, 5), four corners and a score, or (n, 8) with three columns that are not read. Its scores
    must fall: what the device returns for others is documented in two ways.
    """
    name = "npu_nms_with_mask"
    ok = boxes.dim() == 2 and boxes.shape[1] in (5, 8)
    expect(ok, name, "the input must be of shape (n, 5) or (n, 8)", tuple(boxes.shape))
    scores = boxes[:, 4]
    if (scores[1:] > scores[:-1]).any():
        refuse(name, "boxes whose scores do not fall", "sort them first: boxes[boxes[:, 4].argsort(descending=True)]")
    plain = boxes[:, :4].float()

    def overlaps(index: int) -> Tensor:
        common, union = _overlap(plain, index)
        return (common > iou_threshold * union).float()

    num = boxes.shape[0]
    taken = _take(torch.arange(num), overlaps, 0.5, num)
    mask = torch.zeros(num, dtype=torch.uint8)
    mask[taken] = 1
    return boxes[:, :5].clone(), torch.arange(num, dtype=torch.int32), mask


def _no_batch(
    boxes: Tensor, _scores: Tensor, _score: float, _iou_limit: float, _per_class: int, total: int, *_: object
) -> tuple[Tensor, ...]:
    size = (boxes.shape[0], total)
    return (boxes.new_empty(*size, 4), boxes.new_empty(size), boxes.new_empty(size),
            boxes.new_empty(size[0], dtype=torch.int32))  # fmt: skip


@implements("npu_batch_nms", differentiable=False, meta=_no_batch)
def batch_nms(
    boxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    max_size_per_class: int,
    max_total_size: int,
    change_coordinate_frame: bool,
    transpose_box: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Suppression by class, then the best of all classes: boxes (b, total, 4), scores, classes (b, total), counts (b,).

    boxes (b, n, q, 4), or (b, q, 4, n) with `transpose_box`; q is 1 or the number of classes. A box is
    (y1, x1, y2, x2). scores (b, n, classes): those above the threshold count. Places that are left are 0.
    """
    name = "npu_batch_nms"
    expect(boxes.dim() == 4 and boxes.numel() > 0, name, "boxes must have 4 dimensions, none 0", tuple(boxes.shape))
    if change_coordinate_frame:
        refuse(name, "change_coordinate_frame", "it needs a window to clip to, which this operator does not take")
    straight = boxes.permute(0, 3, 1, 2) if transpose_box else boxes
    num_classes = scores.shape[2]
    ok = straight.shape[2] in (1, num_classes) and straight.shape[:2] == scores.shape[:2]
    expect(ok, name, "boxes must be (b, n, 1 or classes, 4) and scores (b, n, classes)",
           f"{tuple(boxes.shape)} and {tuple(scores.shape)}")  # fmt: skip
    for limit in (max_size_per_class, max_total_size):
        expect(1 <= limit <= _MAX_BATCH_BOXES, name, "maximum sizes must be from 1 to 1000", limit)
    results = _no_batch(boxes, scores, 0, 0, 0, max_total_size)
    for result in results:
        result.zero_()
    for b in range(boxes.shape[0]):
        found: list[tuple[float, int, Tensor]] = []
        for c in range(num_classes):
            own = straight[b, :, min(c, straight.shape[2] - 1)].float()
            values = scores[b, :, c].float()
            order = _by_score(values, (values > score_threshold) & (own[:, 2:] > own[:, :2]).all(-1))
            taken = _take(order, lambda i, own=own: _safe_iou(own, i), iou_threshold, max_size_per_class)  # type: ignore[misc]
            found += [(values[i].item(), c, own[i]) for i in taken]
        best = sorted(found, key=lambda item: -item[0])[:max_total_size]
        for place, (score, c, box) in enumerate(best):
            results[0][b, place], results[1][b, place], results[2][b, place] = box, score, c
        results[3][b] = len(best)
    return results  # type: ignore[return-value]


def _safe_iou(boxes: Tensor, index: int) -> Tensor:
    common, union = _overlap(boxes, index)
    return common / union.clamp(min=_TINY)


@implements("npu_nms_rotated", differentiable=False)
def nms_rotated(
    boxes: Tensor, scores: Tensor, iou_threshold: float, scores_threshold: float, max_output_size: int, mode: int
) -> tuple[Tensor, Tensor]:
    """Indices, int32, of the rotated boxes (n, 5) taken, and their number (1,); -1 sets no maximum.

    A box is (x, y, w, h, angle) with mode 0 and (x1, y1, x2, y2, angle) with mode 1; angles are in degrees, from x
    towards y with mode 0 and the other way with mode 1.
    """
    name = "npu_nms_rotated"
    expect(boxes.dim() == 2 and boxes.shape[1] == 5, name, "dets must be of shape (n, 5)", tuple(boxes.shape))
    expect(scores.shape == boxes.shape[:1], name, "there must be one score a box", tuple(scores.shape))
    plain, values = boxes.float(), scores.float()
    upright = mode == 1
    centre, size, angle = plain[:, :2], plain[:, 2:4], plain[:, 4:]
    if upright:
        centre, size, angle = (plain[:, :2] + plain[:, 2:4]) / 2, plain[:, 2:4] - plain[:, :2], -angle
    # NOTE: two negative sides make the same box, turned by half; one alone makes a box without an area.
    outlines = corners(torch.cat([centre, size.abs(), angle], 1), False)
    area = size.prod(-1)
    has_area = area >= _TINY_AREA

    def overlaps(index: int) -> Tensor:
        common = intersection_area(outlines[index], outlines).float()
        union = area + area[index] - common
        counts = (union > 0) & has_area & has_area[index]
        return torch.where(counts, common / union, torch.zeros_like(union))

    limit = boxes.shape[0] if max_output_size < 0 else max_output_size
    taken = _take(_by_score(values, values > scores_threshold), overlaps, iou_threshold, limit)
    return torch.tensor(taken, dtype=torch.int32), torch.tensor([len(taken)], dtype=torch.int32)
