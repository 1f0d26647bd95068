"""Which anchors of a feature map are responsible for a box."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensor = torch.Tensor

__all__ = ["box_dtype_check", "npu_single_level_responsible_flags"]


def box_dtype_check(box: Tensor) -> Tensor:
    """Return boxes as float32. The vendor means to leave float16 alone, but its check never finds it."""
    return box.float()


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: Tensor, stride: Sequence[int], num_base_anchors: int
) -> Tensor:
    """Return 1 for every anchor of the cells that hold the centre of a box, else 0.

    `featmap_size` is (height, width) in cells, `gt_bboxes` (num_boxes, 4) corners in pixels, `stride` the
    pixels of a cell. The result has height * width * num_base_anchors elements; on the NPU this must be
    below 60000.
    """
    flags: Tensor = torch.ops.npu.npu_anchor_response_flags(
        box_dtype_check(gt_bboxes), featmap_size, stride, num_base_anchors
    )
    return flags
