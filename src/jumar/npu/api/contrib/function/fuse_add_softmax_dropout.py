"""Mask, softmax and dropout of attention scores in one operator."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.nn import functional

Tensor = torch.Tensor

__all__ = ["fuse_add_softmax_dropout"]

_FUSED_HEIGHTS = (128, 256, 384, 512)
_FUSED_MULTIPLE = 32


def fuse_add_softmax_dropout(
    training: bool,
    dropout: Callable[[Tensor], Tensor],
    attn_mask: Tensor,
    attn_scores: Tensor,
    attn_head_size: float,
    p: float = 0.5,
    dim: int = -1,  # noqa: ARG001  # the vendor takes and ignores it
) -> Tensor:
    """Return dropout(softmax(attn_mask + attn_scores / sqrt(attn_head_size))), (batch, heads, height, width).

    One operator where the height is 128, 256, 384 or 512 and batch * heads a multiple of 32; it drops with
    probability `p` while `training`. Otherwise three operators, and `dropout` decides. The softmax is over
    the last dimension, whatever `dim` says.
    """
    batch, heads, height, _ = attn_scores.size()
    scale = 1 / math.sqrt(attn_head_size)
    if height in _FUSED_HEIGHTS and (batch * heads) % _FUSED_MULTIPLE == 0:
        results: tuple[Tensor, ...] = torch.ops.npu.npu_dropout_with_add_softmax(
            attn_scores, attn_mask, scale, p if training else 0.0, -1
        )
        return results[2]
    return dropout(functional.softmax(torch.add(attn_mask, attn_scores, alpha=scale), dim=-1))
