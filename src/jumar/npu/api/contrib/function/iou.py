"""Overlap of boxes. All are deprecated in favour of the operators of the same names."""

from __future__ import annotations

import torch

from jumar.npu.api.contrib.deprecated import warn_deprecated
from jumar.npu.api.contrib.function.anchor_generator import box_dtype_check

Tensor = torch.Tensor

__all__ = ["npu_ciou", "npu_diou", "npu_giou", "npu_iou", "npu_ptiou"]


def npu_iou(
    boxes1: Tensor, boxes2: Tensor, mode: str = "ptiou", is_normalized: bool = False, normalized_scale: float = 100.0
) -> Tensor:
    """Return the overlap of every pair of boxes, (num_boxes1, num_boxes2) float32, without gradient.

    Boxes are corners (n, 4) in pixels; coordinates in [0, 1] are multiplied by `normalized_scale` first when
    `is_normalized`. `mode` is "ptiou", the default, or "iou": which operator is used. Raises ValueError
    for another one.
    """
    warn_deprecated("npu_iou", "torch_npu.npu_iou or torch_npu.npu_ptiou")
    if mode not in ("iou", "ptiou"):
        raise ValueError("Expected mode in [iou, ptiou]")
    first, second = box_dtype_check(boxes1), box_dtype_check(boxes2)
    if is_normalized:
        first, second = first * normalized_scale, second * normalized_scale
    operator = torch.ops.npu.npu_iou if mode == "iou" else torch.ops.npu.npu_ptiou
    # NOTE: the operators return one row for each box of their second argument.
    overlap: Tensor = operator(second, first)
    return overlap


npu_ptiou = npu_iou


def npu_giou(boxes1: Tensor, boxes2: Tensor, is_permuted: bool = True) -> Tensor:
    """Return the generalised overlap of boxes pair by pair, float32, differentiable.

    Boxes are (centre x, centre y, width, height), (n, 4), or (4, n) with `is_permuted=False`. Raises
    ValueError for different shapes.
    """
    warn_deprecated("npu_giou", "torch_npu.npu_giou")
    if boxes1.shape != boxes2.shape:
        raise ValueError("Expected boxes1.shape == boxes2.shape")
    first, second = box_dtype_check(boxes1), box_dtype_check(boxes2)
    if is_permuted:
        first, second = first.permute(1, 0), second.permute(1, 0)
    overlap: Tensor = torch.ops.npu.npu_giou(first, second, trans=True, is_cross=False)
    return overlap


def npu_diou(boxes1: Tensor, boxes2: Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Return the overlap of boxes less their distance, pair by pair: `torch_npu.npu_diou`, boxes (4, n)."""
    warn_deprecated("function.npu_diou", "torch_npu.npu_diou")
    overlap: Tensor = torch.ops.npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)
    return overlap


def npu_ciou(boxes1: Tensor, boxes2: Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Return the overlap of boxes less distance and difference of aspect: `torch_npu.npu_ciou`, boxes (4, n)."""
    warn_deprecated("function.npu_ciou", "torch_npu.npu_ciou")
    overlap: Tensor = torch.ops.npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)
    return overlap
