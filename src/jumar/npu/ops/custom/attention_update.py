"""Merging attention that was computed over parts of the keys, and choosing tokens from logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse, require_dtype, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_STATISTICS = 8


@implements("npu_ring_attention_update", differentiable=False)
def ring_attention_update(
    before: Tensor,
    before_max: Tensor,
    before_sum: Tensor,
    current: Tensor,
    current_max: Tensor,
    current_sum: Tensor,
    *,
    actual_seq_qlen: Tensor | None,
    input_layout: str,
    input_softmax_layout: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge two results of `npu_fusion_attention` over different keys; results: attention, maxima, sums.

    SBH takes statistics (B, N, S, 8). TND takes (T, N, 8) in that order, which `softmax_layout` "TND" gives.
    """
    operator = "npu_ring_attention_update"
    require_dtype(operator, FLOATING, prev_attn_out=before, cur_attn_out=current)
    require_dtype(operator, (torch.float32,), prev_softmax_max=before_max, cur_softmax_max=current_max)
    expect(input_layout in ("SBH", "TND"), operator, "input_layout must be 'SBH' or 'TND'", repr(input_layout))
    expect(before.shape == current.shape, operator, f"cur_attn_out must be {tuple(before.shape)}", current.shape)
    size = before_max.shape[-1]
    expect(size == _STATISTICS, operator, "the last dimension of softmax tensors must be 8", size)
    if input_layout == "TND":
        expect(actual_seq_qlen is not None, operator, "TND needs actual_seq_qlen", "None")
        if input_softmax_layout != "TND":
            refuse(operator, "statistics with heads first", "use softmax_layout='TND' in the attention")
    top = torch.maximum(before_max, current_max)
    parts = (torch.exp(before_max - top) * before_sum, torch.exp(current_max - top) * current_sum)
    total = parts[0] + parts[1]
    merged = torch.zeros_like(wide(before))
    for value, part in zip((before, current), parts, strict=True):
        share = (part / total)[..., :1]
        if input_layout == "SBH":
            heads = wide(value).reshape(*value.shape[:2], share.shape[1], -1)
            merged = merged + (heads * share.permute(2, 0, 1, 3)).reshape(value.shape)
        else:
            merged = merged + wide(value) * share
    return merged.to(before.dtype), top, total


@implements("npu_attention_update", differentiable=False)
def attention_update(lse: Sequence[Tensor], outs: Sequence[Tensor], update_type: int) -> tuple[Tensor, Tensor]:
    """Merge attentions (N, H) by their log-sum-exp (N,); with `update_type` 1 the merged one comes too."""
    operator = "npu_attention_update"
    expect(update_type in (0, 1), operator, "update_type must be 0 or 1", update_type)
    expect(len(lse) == len(outs) > 0, operator, f"there must be {len(lse)} local_out", len(outs))
    stacked = torch.stack(list(lse)).float()
    merged = torch.logsumexp(stacked, 0)
    shares = torch.exp(stacked - merged).unsqueeze(-1)
    result = (torch.stack([wide(out) for out in outs]) * shares).sum(0).to(outs[0].dtype)
    return result, merged if update_type else merged.new_empty(0)


@implements("npu_top_k_top_p", differentiable=False)
def top_k_top_p(logits: Tensor, p: Tensor | None, k: Tensor | None) -> Tensor:
    """Logits (batch, vocabulary) with minus infinity for all but the k greatest, then the nucleus of weight p."""
    operator = "npu_top_k_top_p"
    require_dtype(operator, FLOATING, logits=logits, p=p)
    values, order = logits.sort(dim=-1, stable=True)
    if k is not None:
        least = values.gather(1, (values.shape[1] - k.long()).unsqueeze(1))
        values = values.masked_fill(values < least, float("-inf"))
    if p is not None:
        tail = wide(values).softmax(-1).cumsum(-1) <= 1 - wide(p).unsqueeze(1)
        last = torch.arange(values.shape[1], device=logits.device) == values.shape[1] - 1
        values = values.masked_fill(tail & ~last, float("-inf"))
    return torch.empty_like(values).scatter(-1, order, values)
