"""Bring tokens to their experts and back, for inference.

Sources: the adapter's pages of these operators, which give them as NumPy programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.custom.quantisation import by_token
from jumar.npu.ops.helpers.checks import expect, refuse, refuse_given, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


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


@implements("npu_moe_init_routing_v2", differentiable=False)
def init_routing_v2(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_type: int,
    expert_tokens_num_flag: bool,
    quant_mode: int,
    active_expert_range: Sequence[int],
    row_idx_type: int,
    x_dtype: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort tokens (T, H) by their experts (T, k), those of the active experts first.

    Results: the rows (T * k, H), zero behind the active ones; for each choice its row, -1 outside the active
    experts (row_idx_type 0), or for each row its choice (1); tokens of each active expert, int64, as ends
    (expert_tokens_num_type 0) or counts (1); and scales, with `quant_mode` 1 those of int8 rows.
    """
    operator = "npu_moe_init_routing_v2"
    del expert_capacity
    refuse_given(operator, "leave it out", scale=scale, offset=offset, x_dtype=x_dtype)
    if drop_pad_mode or quant_mode not in (-1, 1) or expert_tokens_num_type not in (0, 1):
        refuse(
            operator, "padded experts, key-value counts and other quantisation", "use the modes 0, -1 or 1, and 0 or 1"
        )
    first, end = active_expert_range or (0, expert_num)
    expect(0 <= first < end, operator, "active_expert_range must rise from 0 or more", (first, end))
    num, k = expert_idx.numel(), expert_idx.shape[1]
    flat = expert_idx.reshape(-1).long()
    active = (flat >= first) & (flat < end)
    _, order = flat.masked_fill(~active, 2**31 - 1).sort(stable=True)
    places = torch.arange(num, device=x.device)
    behind = places >= active.sum()
    by_choice = torch.zeros_like(places).scatter(0, order, places.masked_fill(behind, -1))
    rows = order if row_idx_type == 1 else by_choice
    counts = torch.zeros(end - first, dtype=torch.int64, device=x.device)
    counts = counts.index_add(0, (flat - first).clamp(0, end - first - 1), active.long())
    limit = num if active_num <= 0 else min(active_num, num)
    expanded = x.index_select(0, order[:limit] // k).masked_fill(behind[:limit].unsqueeze(-1), 0)
    scales = torch.zeros(limit, dtype=torch.float32, device=x.device)
    if quant_mode == 1:
        expanded, scales = by_token(wide(expanded))
    tokens = counts.cumsum(0) if expert_tokens_num_type == 0 else counts
    return expanded, rows.int(), tokens if expert_tokens_num_flag else tokens.new_empty(0), scales


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
