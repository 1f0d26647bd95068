"""Boxes with an angle: overlaps, IoU, coding. Angles are in degrees, from x towards y."""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.helpers.polygons import corners, intersection_area
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


def _check(name: str, boxes: Tensor, query_boxes: Tensor) -> None:
    for value in (boxes, query_boxes):
        ok = value.dim() == 3 and value.shape[-1] == 5
        expect(ok, name, "boxes must be of shape (batch, n, 5)", tuple(value.shape))


def _no_pairs(boxes: Tensor, query_boxes: Tensor, *_: object) -> Tensor:
    return boxes.new_empty(boxes.shape[0], boxes.shape[1], query_boxes.shape[1])


def _areas(boxes: Tensor, trans: bool) -> Tensor:
    if trans:
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    return boxes[..., 2] * boxes[..., 3]


def _overlaps(boxes: Tensor, query_boxes: Tensor, trans: bool) -> Tensor:
    first, second = corners(boxes.float(), trans), corners(query_boxes.float(), trans)
    return intersection_area(first.unsqueeze(2), second.unsqueeze(1)).float()


@implements("npu_rotated_overlaps", differentiable=False, meta=_no_pairs)
def rotated_overlaps(boxes: Tensor, query_boxes: Tensor, trans: bool) -> Tensor:
    """Common area of every pair, (batch, n, k), of boxes (batch, n, 5) and (batch, k, 5).

    A box is (x, y, w, h, angle), or (x1, y1, x2, y2, angle) with `trans`.
    """
    _check("npu_rotated_overlaps", boxes, query_boxes)
    return _overlaps(boxes, query_boxes, trans).to(boxes.dtype)


@implements("npu_rotated_iou", differentiable=False, meta=_no_pairs)
def rotated_iou(
    boxes: Tensor, query_boxes: Tensor, trans: bool, mode: int, is_cross: bool, v_threshold: float, e_threshold: float
) -> Tensor:
    """IoU of every pair, shaped as for `npu_rotated_overlaps`."""
    name = "npu_rotated_iou"
    _check(name, boxes, query_boxes)
    if mode != 0:
        refuse(name, "mode 1 (IoF)", "which box's area it divides by is not documented; use mode 0")
    if not is_cross:
        refuse(name, "is_cross=False", "the shape of its result is not documented; use is_cross=True")
    if v_threshold or e_threshold:
        refuse(name, "v_threshold and e_threshold", "what they do is not documented; leave them 0")
    overlap = _overlaps(boxes, query_boxes, trans)
    union = _areas(boxes.float(), trans).unsqueeze(2) + _areas(query_boxes.float(), trans).unsqueeze(1) - overlap
    return torch.where(union > 0, overlap / union, torch.zeros_like(union)).to(boxes.dtype)


def _parts(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return centres (b, 2, n), sizes (b, 2, n) and tangents of the angle (b, 1, n) of boxes (b, 5, n)."""
    first, last, angle = boxes[:, :2], boxes[:, 2:4], boxes[:, 4:]
    return (first + last) / 2, last - first, torch.tan(torch.deg2rad(angle))


@implements("npu_rotated_box_encode", differentiable=False)
def rotated_box_encode(anchors: Tensor, gt_boxes: Tensor, weight: Tensor) -> Tensor:
    """Offsets of boxes (batch, 5, n), (x1, y1, x2, y2, angle), from anchors, times five weights.

    Of centres in sizes of the anchor, of the logarithms of sizes, and of the tangents of the angles.
    """
    _check_coded("npu_rotated_box_encode", anchors, gt_boxes, weight)
    (centre, size, tangent), (gt_centre, gt_size, gt_tangent) = _parts(anchors.float()), _parts(gt_boxes.float())
    offsets = torch.cat([(gt_centre - centre) / size, torch.log(gt_size / size), gt_tangent - tangent], 1)
    return (offsets * weight.float().view(5, 1)).to(anchors.dtype)


@implements("npu_rotated_box_decode", differentiable=False)
def rotated_box_decode(anchors: Tensor, deltas: Tensor, weight: Tensor) -> Tensor:
    """Boxes (batch, 5, n) from anchors and offsets: the inverse of `npu_rotated_box_encode`."""
    _check_coded("npu_rotated_box_decode", anchors, deltas, weight)
    centre, size, tangent = _parts(anchors.float())
    plain = deltas.float() / weight.float().view(5, 1)
    new_centre, new_size = centre + plain[:, :2] * size, size * torch.exp(plain[:, 2:4])
    angle = torch.rad2deg(torch.atan(tangent + plain[:, 4:]))
    return torch.cat([new_centre - new_size / 2, new_centre + new_size / 2, angle], 1).to(anchors.dtype)


def _check_coded(name: str, anchors: Tensor, others: Tensor, weight: Tensor) -> None:
    ok = anchors.dim() == 3 and anchors.shape[1] == 5 and anchors.shape == others.shape
    expect(ok, name, "both must be of shape (batch, 5, n)", f"{tuple(anchors.shape)} and {tuple(others.shape)}")
    expect(weight.numel() == 5, name, "weight must have five numbers", weight.numel())
