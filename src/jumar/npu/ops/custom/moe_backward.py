"""The backward operators of token permutation under the vendor's names, and the forms that autograd calls there."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.custom.moe_tokens import taken, token_unpermute
from jumar.npu.ops.helpers.checks import expect, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


@implements("npu_moe_token_permute_grad_v2", differentiable=False)
def token_permute_grad(
    gradient: Tensor, places: Tensor, num_tokens: int, dtype: torch.dtype, choices: int, padded_mode: bool
) -> Tensor:
    """Gradient of the tokens (num_tokens, H): the sum over each token's choices that were kept."""
    wider = wide(gradient)
    if padded_mode:
        empty = torch.zeros(num_tokens, gradient.shape[1], dtype=wider.dtype, device=gradient.device)
        return empty.index_add(0, places.reshape(-1).long(), wider).to(dtype)
    expect(
        places.numel() == num_tokens * choices,
        "npu_moe_token_permute_grad_v2",
        f"sorted_indices must have {num_tokens * choices} elements",
        places.numel(),
    )
    return taken(wider, places).reshape(num_tokens, choices, -1).sum(1).to(dtype)


@implements("npu_moe_token_permute_grad", differentiable=False)
def token_permute_grad_of_tokens(
    tokens: Tensor, gradient: Tensor, indices: Tensor, places: Tensor, padded_mode: bool
) -> Tensor:
    """`npu_moe_token_permute_grad_v2` that reads sizes from the tokens."""
    choices = 1 if indices.dim() == 1 else indices.shape[-1]
    return token_permute_grad(gradient, places, tokens.shape[0], tokens.dtype, choices, padded_mode)


@implements("npu_moe_token_unpermute_grad", differentiable=False)
def token_unpermute_grad(
    permuted: Tensor,
    gradient: Tensor,
    places: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    _restore_shape: Sequence[int] | None,
) -> tuple[Tensor, Tensor | None]:
    """Gradients of the permuted tokens and of the probabilities (undefined without them)."""
    wider, flat = wide(gradient), places.reshape(-1).long()
    if padded_mode:
        by_choice = wider.index_select(0, flat)
        rows = torch.arange(flat.numel(), device=flat.device)
    else:
        choices = 1 if probs is None else probs.shape[1]
        by_choice = wider.repeat_interleave(choices, 0)
        rows = flat
    beyond = rows >= permuted.shape[0]
    sources = rows.masked_fill(beyond, 0)
    by_probs = None
    if probs is not None:
        products = (wide(permuted).index_select(0, sources) * by_choice).sum(-1).masked_fill(beyond, 0.0)
        by_probs = products.reshape(probs.shape).to(probs.dtype)
        by_choice = by_choice * wide(probs).reshape(-1, 1)
    empty = torch.zeros(permuted.shape, dtype=wider.dtype, device=permuted.device)
    by_tokens = empty.index_add(0, sources, by_choice.masked_fill(beyond.unsqueeze(-1), 0.0))
    return by_tokens.to(permuted.dtype), by_probs


@implements("_npu_moe_token_unpermute", outputs=(0,), backward="npu_moe_token_unpermute_grad_v2")
def token_unpermute_keeping(
    permuted: Tensor,
    places: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,
) -> tuple[Tensor, Tensor]:
    """`npu_moe_token_unpermute`, and the permuted tokens as the backward with probabilities needs them."""
    kept = permuted.new_empty(0) if probs is None else permuted.detach()
    return token_unpermute(permuted, places, probs, padded_mode, restore_shape), kept


@implements("npu_moe_token_unpermute_grad_v2", differentiable=False)
def token_unpermute_grad_by_size(
    gradient: Tensor,
    places: Tensor,
    num_permuted: int,
    dtype: torch.dtype,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,
    permuted: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """`npu_moe_token_unpermute_grad` that is given sizes; with probabilities it needs the permuted tokens."""
    operator = "npu_moe_token_unpermute_grad_v2"
    if permuted is None or not permuted.numel():
        expect(probs is None, operator, "probs need permuted_tokens", "None")
        permuted = torch.empty(num_permuted, gradient.shape[1], dtype=dtype, device=gradient.device)
    return token_unpermute_grad(permuted, gradient, places, probs, padded_mode, restore_shape)
