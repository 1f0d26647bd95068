"""Choosing experts for tokens.

Sources: the adapter's pages of these operators, which give them as NumPy programs.
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse_given, require_dtype, wide
from jumar.npu.ops.mechanism.gradients import gradient as gradient_of
from jumar.npu.ops.mechanism.implement import implements

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


@implements("npu_moe_gating_top_k_softmax_v2", differentiable=False)
def gating_top_k_softmax_v2(
    x: Tensor, *, k: int, finished: Tensor | None, renorm: int | None, output_softmax: bool | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax, then the k greatest, or with `renorm` 1 the other way round; values, experts, and all of softmax.

    All of softmax (float32) comes with `output_softmax` and without `renorm`, else an empty tensor.
    """
    operator = "npu_moe_gating_top_k_softmax_v2"
    require_dtype(operator, FLOATING, x=x)
    expect(x.dim() in (2, 3), operator, "x must have 2 or 3 dimensions", x.dim())
    expect(renorm in (0, 1), operator, "renorm must be 0 or 1", renorm)
    everything = torch.softmax(wide(x), -1)
    experts = _top(x if renorm else everything, k)
    values = torch.softmax(wide(x).gather(-1, experts), -1) if renorm else everything.gather(-1, experts)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1).bool(), x.shape[-1])
    wanted = output_softmax and not renorm
    return values.to(x.dtype), experts.int(), everything if wanted else everything.new_empty(0)


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
