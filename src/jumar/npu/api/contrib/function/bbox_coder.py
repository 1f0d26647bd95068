"""Boxes as offsets from anchors, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.api.contrib.function.anchor_generator import box_dtype_check

Tensor = torch.Tensor

__all__ = ["npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh", "npu_bbox_coder_encode_yolo"]

_NO_LIMIT = (9999, 9999)


def npu_bbox_coder_encode_yolo(bboxes: Tensor, gt_bboxes: Tensor, stride: Tensor) -> Tensor:
    """Return the YOLO deltas that turn `bboxes` into `gt_bboxes`, (num_boxes, 4) float32.

    `stride` holds the pixels of a cell for each box. Raises ValueError unless both are (num_boxes, 4).
    """
    _check(bboxes, gt_bboxes, "gt_bboxes")
    deltas: Tensor = torch.ops.npu.npu_yolo_boxes_encode(
        box_dtype_check(bboxes), box_dtype_check(gt_bboxes), stride.int(), performance_mode=False
    )
    return deltas


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: Tensor,
    gt_bboxes: Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> Tensor:
    """Return the deltas (centre and logarithm of size) that turn `bboxes` into `gt_bboxes`, (num_boxes, 4) float32.

    Boxes are corners in pixels; coordinates in [0, 1] are multiplied by `normalized_scale` first when
    `is_normalized`. Deltas are normalised by `means` and `stds`. Raises ValueError unless both are (num_boxes, 4).
    """
    _check(bboxes, gt_bboxes, "gt_bboxes")
    scale = normalized_scale if is_normalized else 1
    anchors, boxes = box_dtype_check(bboxes), box_dtype_check(gt_bboxes)
    if is_normalized:
        anchors, boxes = anchors * scale, boxes * scale
    deltas: Tensor = torch.ops.npu.npu_bounding_box_encode(anchors, boxes, *_four(means, 0.0), *_four(stds, 1.0))
    return deltas


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: Tensor,
    pred_bboxes: Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    max_shape: Sequence[int] | None = None,
    wh_ratio_clip: float = 16 / 1000,
) -> Tensor:
    """Return the corners (num_boxes, 4) float32 that the deltas `pred_bboxes` make of the anchors `bboxes`.

    `means` and `stds` are those of the encoding; corners are clipped to `max_shape` (height, width), which
    is 9999 x 9999 by default, and changes of size to `wh_ratio_clip`. Raises ValueError unless both are
    (num_boxes, 4).
    """
    _check(bboxes, pred_bboxes, "pred_bboxes")
    corners: Tensor = torch.ops.npu.npu_bounding_box_decode(
        box_dtype_check(bboxes),
        box_dtype_check(pred_bboxes),
        *_four(means, 0.0),
        *_four(stds, 1.0),
        _NO_LIMIT if max_shape is None else max_shape,
        wh_ratio_clip,
    )
    return corners


def _check(bboxes: Tensor, other: Tensor, name: str) -> None:
    if bboxes.size(0) != other.size(0):
        raise ValueError(f"Expected bboxes.size(0) == {name}.size(0)")
    if not bboxes.size(-1) == other.size(-1) == 4:
        raise ValueError(f"Expected bboxes.size(-1) == {name}.size(-1) == 4")


def _four(given: Sequence[float] | None, default: float) -> list[float]:
    return [default] * 4 if given is None else [given[position] for position in range(4)]
