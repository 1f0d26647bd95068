"""Choosing experts for tokens, and bringing tokens to experts and back, as inference does it.

Sources: the adapter's pages of these operators, which give them as NumPy programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.device.emulator.custom.checks import FLOATING, expect, refuse, refuse_given, require_dtype, wide
from jumar.device.emulator.custom.gradients import gradient as gradient_of
from jumar.device.emulator.custom.mechanism import implements

Tensor = torch.Tensor


def _top(scores: Tensor, k: int) -> Tensor:
    """Return the positions of the k greatest along the last dimension, the first of equals first."""
    return torch.argsort(scores, dim=-1, descending=True, stable=True)[..., :k]


@implements("npu_moe_gating_top_k_softmax", differentiable=False)
def gating_top_k_softmax(x: Tensor, finished: Tensor | None, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax over the experts, then the k greatest: their values, experts (int32) and rows (int32).

    `x` is (..., experts). The experts of a finished row are the number of experts. Rows count down the
    tokens first: token i's j-th choice is row `j * tokens + i`.
    """
    operator = "npu_moe_gating_top_k_softmax"
    require_dtype(operator, FLOATING, x=x)
    expect(x.dim() in (2, 3), operator, "x must have 2 or 3 dimensions", x.dim())
    expect(0 < k <= x.shape[-1], operator, f"k must be in the range [1, {x.shape[-1]}]", k)
    probabilities = torch.softmax(wide(x), -1).to(x.dtype)
    experts = _top(probabilities, k)
    values = probabilities.gather(-1, experts)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1).bool(), x.shape[-1])
    num_tokens = values.numel() // k
    rows = torch.arange(num_tokens * k, dtype=torch.int32, device=x.device).reshape(k, num_tokens)
    return values, experts.int(), rows.t().reshape(values.shape)


@implements("npu_moe_gating_top_k", outputs=(0,))
def gating_top_k(
    x: Tensor,
    k: int,
    *,
    bias: Tensor | None,
    input_ids: Tensor | None,
    tid2eid: Tensor | None,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,
    routed_scaling_factor: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the experts by softmax (norm_type 0) or sigmoid (1), the best groups, then the k best experts.

    Results: weights (T, k) in the dtype of `x`, experts (int32) and, with `out_flag`, all scores (float32).
    The bias moves the choice, not the weights. Sigmoid weights are divided by their sum plus `eps`.
    """
    operator = "npu_moe_gating_top_k"
    refuse_given(operator, "leave it out", input_ids=input_ids, tid2eid=tid2eid)
    require_dtype(operator, FLOATING, x=x, bias=bias)
    expect(x.dim() == 2, operator, "x must have 2 dimensions", x.dim())
    expect(renorm == 0, operator, "renorm must be 0", renorm)
    expect(norm_type in (0, 1), operator, "norm_type must be 0 or 1", norm_type)
    expect(group_select_mode in (0, 1), operator, "group_select_mode must be 0 or 1", group_select_mode)
    even = group_count > 0 and x.shape[-1] % group_count == 0
    expect(even, operator, f"group_count must divide the {x.shape[-1]} experts", group_count)
    logits = wide(x)
    scores = torch.softmax(logits, -1) if norm_type == 0 else torch.sigmoid(logits)
    choice = scores if bias is None else scores + wide(bias)
    if group_count > 1:
        choice = _best_groups(choice, group_count, k_group, group_select_mode)
    experts = _top(choice, k)
    weights = _weights(scores, experts, norm_type, routed_scaling_factor, eps).to(x.dtype)
    return weights, experts.int(), scores if out_flag else scores.new_empty(0)


def _weights(scores: Tensor, experts: Tensor, norm_type: int, factor: float, eps: float) -> Tensor:
    weights = scores.gather(-1, experts)
    if norm_type == 1:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return weights * factor


def _best_groups(choice: Tensor, group_count: int, k_group: int, mode: int) -> Tensor:
    """Return the scores with minus infinity outside the best groups: by their greatest, or the sum of two."""
    groups = choice.reshape(choice.shape[0], group_count, -1)
    merits = groups.amax(-1) if mode == 0 else groups.topk(2, -1).values.sum(-1)
    chosen = torch.zeros_like(merits, dtype=torch.bool).scatter(1, _top(merits, k_group), True)
    return groups.masked_fill(~chosen.unsqueeze(-1), float("-inf")).reshape(choice.shape)


@implements("npu_moe_gating_top_k_backward", differentiable=False)
def gating_top_k_backward(
    x_norm: Tensor,
    gradient: Tensor,
    experts: Tensor,
    *,
    renorm: int,
    norm_type: int,
    routed_scaling_factor: float,
    eps: float,
) -> Tensor:
    """Gradient of the logits from all scores `x_norm`, the weights' gradient and the chosen experts."""
    expect(renorm == 0, "npu_moe_gating_top_k_backward", "renorm must be 0", renorm)
    scores = wide(x_norm)
    by_scores = gradient_of(
        lambda value: _weights(value, experts.long(), norm_type, routed_scaling_factor, eps), scores, wide(gradient)
    )
    if norm_type == 1:
        found = by_scores * scores * (1 - scores)
    else:
        found = scores * (by_scores - (by_scores * scores).sum(-1, keepdim=True))
    return found.to(gradient.dtype)


@implements("npu_moe_init_routing", differentiable=False)
def init_routing(x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort tokens (T, H) by their experts (T, k).

    Results: the expanded rows (active * k, H) in order of expert; for each row index where it went; the
    sorted experts. `row_idx` numbers the choices as `npu_moe_gating_top_k_softmax` does.
    """
    num_rows, k = expert_idx.shape
    expect(x.shape[0] == num_rows, "npu_moe_init_routing", f"x must have {num_rows} rows", x.shape[0])
    sorted_experts, order = expert_idx.reshape(-1).sort(stable=True)
    sources = row_idx.reshape(-1).index_select(0, order).long()
    places = torch.arange(num_rows * k, dtype=torch.int32, device=x.device)
    went = torch.zeros_like(places).scatter(0, sources, places)
    active = min(active_num, num_rows) * k
    return x.index_select(0, sources[:active] % num_rows), went, sorted_experts.int()


@implements("npu_moe_compute_expert_tokens", differentiable=False)
def compute_expert_tokens(sorted_experts: Tensor, num_experts: int) -> Tensor:
    """How many of the sorted experts are at or below each expert: ends of the groups, int32."""
    experts = torch.arange(num_experts, device=sorted_experts.device, dtype=sorted_experts.dtype)
    return torch.searchsorted(sorted_experts.contiguous(), experts, right=True).int()


@implements("npu_moe_finalize_routing", differentiable=False)
def finalize_routing(
    expanded: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    places: Tensor,
    experts: Tensor | None,
    drop_pad_mode: int | None,
    k: int | None,
) -> Tensor:
    """Add up each token's expert results: `skip1 + skip2 + sum_k scales * (expanded[place] + bias[expert])`.

    `places` holds for choice j of token i, at `j * tokens + i`, the row of `expanded`, or -1 for none. In
    the modes 2 and 3 it is at `i * k + j`.
    """
    operator = "npu_moe_finalize_routing"
    mode = drop_pad_mode or 0
    expect(mode in range(4), operator, "drop_pad_mode must be in the range [0, 3]", mode)
    choices = scales.shape[1] if scales is not None else (k or 1)
    num_rows = places.numel() // choices
    rows = wide(expanded.reshape(-1, expanded.shape[-1]))
    order = places.reshape(num_rows, choices).t() if mode >= 2 else places.reshape(choices, num_rows)
    found = rows.index_select(0, order.reshape(-1).clamp(min=0).long()).reshape(choices, num_rows, -1)
    found = found.masked_fill((order < 0).unsqueeze(-1), 0.0)
    if bias is not None:
        if experts is None:
            expect(False, operator, "bias needs the experts of the rows", "None")
        else:
            found = found + wide(bias).index_select(0, experts.t().reshape(-1).long()).reshape(found.shape)
    if scales is not None:
        found = found * wide(scales).t().unsqueeze(-1)
    total = found.sum(0)
    for skip in (skip1, skip2):
        if skip is not None:
            total = total + wide(skip)
    return total.to(expanded.dtype)


@implements("npu_moe_re_routing", differentiable=False)
def re_routing(
    tokens: Tensor,
    counts: Tensor,
    *,
    per_token_scales: Tensor | None,
    expert_token_num_type: int,
    idx_type: int,
    tokens_dtype: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bring tokens that are ordered by rank, then expert, into the order by expert, then rank.

    `counts` is (ranks, experts). Results: the tokens, their scales, where each came from (int32), and the
    tokens of each expert.
    """
    operator = "npu_moe_re_routing"
    if expert_token_num_type != 1 or idx_type != 0 or tokens_dtype is not None:
        refuse(operator, "other modes than the default", "leave expert_token_num_type, idx_type and tokens_dtype")
    num_ranks, num_experts = counts.shape
    sizes = counts.reshape(-1).long()
    experts = torch.arange(num_experts, device=tokens.device).repeat(num_ranks)
    if tokens.is_meta:
        order = torch.empty(tokens.shape[0], dtype=torch.int64, device=tokens.device)
    else:
        order = torch.argsort(experts.repeat_interleave(sizes), stable=True)
    scales = per_token_scales
    if scales is None:
        scales = torch.zeros(tokens.shape[0], dtype=torch.float32, device=tokens.device)
    else:
        scales = scales.index_select(0, order)
    return tokens.index_select(0, order), scales, order.int(), counts.sum(0).to(counts.dtype)


def restored(shape: Sequence[int] | None, operator: str) -> list[int]:
    """Return the shape to restore. Raises RuntimeError when it was not given."""
    expect(shape is not None, operator, "padded tokens need restore_shape", "None")
    return list(shape or ())
