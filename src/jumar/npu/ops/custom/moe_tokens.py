"""Permute tokens to experts and back with gradients, for training.

Sources: CANN's aclnn pages of MoeTokenPermute, MoeTokenUnpermute and their forms with a routing map.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.helpers.checks import expect, refuse, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


def _restored(shape: Sequence[int] | None, operator: str) -> list[int]:
    """Return the shape to restore. Raises RuntimeError when it was not given."""
    expect(shape is not None, operator, "padded tokens need restore_shape", "None")
    return list(shape or ())


@implements("npu_moe_token_permute", outputs=(0,), backward="npu_moe_token_permute_grad_v2")
def token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None, padded_mode: bool
) -> tuple[Tensor, Tensor]:
    """Repeat tokens (T, H) for each of their experts (T, k) and order them by expert.

    Results: the permuted tokens, and for each choice the row it went to (int32). `num_out_tokens` drops the
    rows from there on; a negative one so many from the end. In padded mode `indices` are the tokens
    themselves.
    """
    operator = "npu_moe_token_permute"
    expect(tokens.dim() == 2, operator, "tokens must have 2 dimensions", tokens.dim())
    expect(indices.dim() in (1, 2), operator, "indices must have 1 or 2 dimensions", indices.dim())
    if padded_mode:
        return tokens.index_select(0, indices.reshape(-1).long()), indices.reshape(-1).int()
    choices = 1 if indices.dim() == 1 else indices.shape[1]
    order = torch.argsort(indices.reshape(-1), stable=True)
    places = torch.argsort(order, stable=True).int()
    kept = order[: num_out_tokens or order.numel()]
    return tokens.index_select(0, kept // choices), places


@implements(
    "npu_moe_token_unpermute",
    backward="npu_moe_token_unpermute_grad_v2",
)
def token_unpermute(
    permuted: Tensor,
    places: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,
) -> Tensor:
    """Bring permuted tokens back and add up each token's choices, weighted by `probs` (T, k) where given.

    A choice whose place is beyond the permuted tokens was dropped and adds nothing.
    """
    operator = "npu_moe_token_unpermute"
    expect(permuted.dim() == 2, operator, "permuted_tokens must have 2 dimensions", permuted.dim())
    wider = wide(permuted)
    if padded_mode:
        weighted = wider if probs is None else wider * probs.reshape(-1, 1)
        shape = _restored(restore_shape, operator)
        empty = torch.zeros(shape, dtype=weighted.dtype, device=permuted.device)
        return empty.index_add(0, places.reshape(-1).long(), weighted).to(permuted.dtype)
    choices = 1 if probs is None else probs.shape[1]
    found = taken(wider, places).reshape(-1, choices, permuted.shape[1])
    if probs is not None:
        found = found * wide(probs).unsqueeze(-1)
    return found.sum(1).to(permuted.dtype)


def taken(rows: Tensor, places: Tensor) -> Tensor:
    """Return the rows at these places, zeros for places beyond the last."""
    beyond = places >= rows.shape[0]
    found = rows.index_select(0, places.masked_fill(beyond, 0).long())
    return found.masked_fill(beyond.unsqueeze(-1), 0.0)


@implements(
    "npu_moe_token_permute_with_routing_map", outputs=(0, 1), backward="npu_moe_token_permute_with_routing_map_grad"
)
def token_permute_with_routing_map(
    tokens: Tensor, routing_map: Tensor, *, probs: Tensor | None, num_out_tokens: int | None, drop_and_pad: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Order tokens (T, H) by the experts that a map (T, experts) of 0 and 1 gives them.

    Results: the permuted tokens, their probabilities, and (int32) for each pair of token and expert, tokens
    first, the row it went to. With `drop_and_pad` each expert takes `num_out_tokens / experts` tokens, its
    own first, and the last result is the token of each row.
    """
    operator = "npu_moe_token_permute_with_routing_map"
    num_tokens, num_experts = routing_map.shape
    expect(tokens.shape[0] == num_tokens, operator, f"tokens must have {num_tokens} rows", tokens.shape[0])
    by_expert = routing_map.t().to(torch.int8).contiguous()
    wanted = num_out_tokens or 0
    if drop_and_pad:
        expect(wanted > 0, operator, "drop_and_pad needs num_out_tokens", num_out_tokens)
        capacity = wanted // num_experts
        order = torch.sort(by_expert, dim=-1, descending=True, stable=True).indices[:, :capacity]
        chosen = None if probs is None else probs.t().gather(1, order).reshape(-1)
        rows = order.reshape(-1)
        return tokens.index_select(0, rows), chosen, rows.int()
    if tokens.is_meta:
        pairs = torch.empty(wanted // num_tokens * num_tokens, dtype=torch.int64, device=tokens.device)
    else:
        pairs = by_expert.reshape(-1).nonzero().squeeze(1)
        expect(not wanted or wanted == pairs.numel(), operator, f"the map has {pairs.numel()} tokens to route", wanted)
    sources = pairs % num_tokens
    places = torch.argsort(sources, stable=True).int()
    chosen = None if probs is None else probs.t().reshape(-1).index_select(0, pairs)
    return tokens.index_select(0, sources), chosen, places


@implements("npu_moe_token_unpermute_with_routing_map", backward="npu_moe_token_unpermute_with_routing_map_grad")
def token_unpermute_with_routing_map(
    permuted: Tensor,
    places: Tensor,
    restore_shape: Sequence[int],
    *,
    probs: Tensor | None,
    routing_map: Tensor | None,
    drop_and_pad: bool,
) -> Tensor:
    """Bring tokens back that `npu_moe_token_permute_with_routing_map` has ordered, weighted by `probs`."""
    operator = "npu_moe_token_unpermute_with_routing_map"
    wider = wide(permuted)
    if drop_and_pad:
        if probs is not None:
            num_experts = probs.shape[1]
            chosen = probs.t().gather(1, places.reshape(num_experts, -1).long())
            wider = wider * wide(chosen).reshape(-1, 1)
        empty = torch.zeros(list(restore_shape), dtype=wider.dtype, device=permuted.device)
        return empty.index_add(0, places.long(), wider).to(permuted.dtype)
    if routing_map is None:
        refuse(operator, "tokens without their routing map", "give routing_map")
    assert routing_map is not None
    choices = permuted.shape[0] // routing_map.shape[0]
    found = wider.index_select(0, places.long()).reshape(-1, choices, permuted.shape[1])
    if probs is not None:
        found = found * wide(_selected(probs, routing_map, permuted.shape[0])).reshape(-1, choices, 1)
    return found.sum(1).to(permuted.dtype)


def _selected(probs: Tensor, routing_map: Tensor, num: int) -> Tensor:
    if probs.is_meta:
        return probs.new_empty(num)
    return probs.masked_select(routing_map.bool())
