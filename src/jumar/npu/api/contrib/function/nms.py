"""Non-maximum suppression of boxes of several classes."""

from __future__ import annotations

import torch

Tensor = torch.Tensor

__all__ = ["npu_batched_multiclass_nms", "npu_multiclass_nms"]


def npu_multiclass_nms(
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the kept boxes with their scores, (max_num, 5), and classes, (max_num,), padded with zeros; float16.

    `multi_bboxes` is (n, 4) or (n, num_classes * 4), `multi_scores` (n, num_classes + 1), the last column
    the background, which is left out; `score_factors` (n,) multiply the scores.
    """
    factors = None if score_factors is None else score_factors.unsqueeze(0)
    batch = multi_bboxes.unsqueeze(0), multi_scores.unsqueeze(0)
    boxes, classes = npu_batched_multiclass_nms(*batch, score_thr, nms_thr, max_num, factors)
    return boxes.squeeze(0), classes.squeeze(0)


def npu_batched_multiclass_nms(
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `npu_multiclass_nms` returns for every image of a batch, which comes first in all shapes."""
    batch, num_boxes, num_columns = multi_scores.shape
    scores = multi_scores[..., :-1]
    if score_factors is not None:
        scores = scores * score_factors[..., None]
    boxes = multi_bboxes.reshape(batch, num_boxes, multi_bboxes.numel() // (4 * num_boxes * batch), 4)
    kept, kept_scores, classes, _ = torch.ops.npu.npu_batch_nms(
        boxes.half(),
        scores.reshape(batch, num_boxes, num_columns - 1).half(),
        score_thr,
        nms_thr,
        max_num,
        max_num,
    )
    return torch.cat([kept, kept_scores[..., None]], -1), classes
