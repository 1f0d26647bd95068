"""`npu_fusion_attention`, the fused attention for training, its second version, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jumar.npu.ops.custom.attention_call import Call, check, gradients, lengths, run
from jumar.npu.ops.helpers import attention_core as core
from jumar.npu.ops.helpers.checks import expect, refuse, refuse_given, require
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_REFUSED = ("padding_mask", "sink", "query_rope", "key_rope")
_BEFORE_SCALE = 1
"""The `pse_type` that adds the position encodings before the scale multiplies; the first version always does."""


def _call(operator: str, given: Mapping[str, Any]) -> Call:
    """Return the checked call that these arguments, by the names of either version, ask for."""
    refuse_given(operator, "leave it out", **{name: given.get(name) for name in _REFUSED})
    pse_type = given.get("pse_type", _BEFORE_SCALE)
    expect(pse_type in range(4), operator, "pse_type must be in the range [0, 3]", pse_type)
    if pse_type > _BEFORE_SCALE:
        refuse(operator, "position encodings that it makes itself", "use pse_type 0 or 1 and give pse")
    before, after = ("pre_tokens", "next_tokens") if "pre_tokens" in given else ("pre_tockens", "next_tockens")
    call = Call(
        operator=operator,
        head_num=given["head_num"],
        layout=given["input_layout"],
        scale=given["scale_value"] if "scale_value" in given else given["scale"],
        keep_prob=given["keep_prob"],
        sparsity=core.Sparsity(
            mask=given["atten_mask"],
            mode=given["sparse_mode"],
            before=given[before],
            after=given[after],
            prefix=tuple(given["prefix"] or ()),
        ),
        bias_first=pse_type == _BEFORE_SCALE,
        query_lengths=lengths(given["actual_seq_qlen"]),
        key_lengths=lengths(given["actual_seq_kvlen"]),
        softmax_layout=given["softmax_layout"],
        seed=given["seed"],
        offset=given["offset"],
        dropout_mask=given.get("dropout_mask"),
    )
    check(call, given["query"], given["key"], given["value"], given["pse"])
    return call


def _inputs(given: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    return given["query"], given["key"], given["value"], given["pse"]


@implements("npu_fusion_attention", outputs=(0,), backward="npu_fusion_attention_grad", by_name=True)
def fusion_attention(**given: Any) -> tuple[Any, ...]:
    """`dropout(softmax(scale * (query @ key^T + pse), masked)) @ value`.

    Results: the attention; the maximum and the sum of each row, float32, (B, N, Sq, 8) or (T, N, 8); an
    empty tensor; seed, offset and number of elements of the dropout mask.
    """
    return run(_call("npu_fusion_attention", given), *_inputs(given))


@implements("npu_fusion_attention_v2", outputs=(0,), backward="npu_fusion_attention_grad_v2", by_name=True)
def fusion_attention_v2(**given: Any) -> tuple[Any, ...]:
    """`npu_fusion_attention` with `pse_type` 0, which adds pse after scaling, or 1, which adds it before."""
    return run(_call("npu_fusion_attention_v2", given), *_inputs(given))


def _derived(step: Step, forward: str, backward: str) -> dict[str, Any]:
    given, results = step.arguments, step.results
    if given["dropout_mask"] is not None and given["keep_prob"] != 1:
        refuse(forward, "the gradient of a dropout mask that is given", "let the operator draw it")
    found = shared(
        step,
        backward,
        dy=step.gradients[0],
        attention_in=results[0],
        softmax_max=results[1],
        softmax_sum=results[2],
        softmax_in=results[3],
        seed=results[4],
        offset=results[5],
        numels=results[6],
        scale_value=given["scale"],
    )
    return dict(zip(("query", "key", "value", "pse"), found, strict=False))


@derivative("npu_fusion_attention", reads_results=True)
def _fusion_attention_derivative(step: Step) -> dict[str, Any]:
    return _derived(step, "npu_fusion_attention", "npu_fusion_attention_grad")


@derivative("npu_fusion_attention_v2", reads_results=True)
def _fusion_attention_v2_derivative(step: Step) -> dict[str, Any]:
    return _derived(step, "npu_fusion_attention_v2", "npu_fusion_attention_grad_v2")


@implements("npu_fusion_attention_grad", differentiable=False, by_name=True)
def fusion_attention_grad(**given: Any) -> tuple[Tensor | None, ...]:
    """Gradients of query, key, value, pse and sink; undefined for what was not given.

    The scores are computed again from query and key; the statistics of the forward are not needed for it.
    """
    operator = "npu_fusion_attention_grad"
    call = _call(operator, given)
    has_seed = call.keep_prob == 1 or call.seed != 0 or given["query"].is_meta
    require(has_seed, f"{operator}: dropout needs the seed of the forward.")
    return (*gradients(call, *_inputs(given), given["dy"]), None)


@implements("npu_fusion_attention_grad_v2", differentiable=False, by_name=True)
def fusion_attention_grad_v2(**given: Any) -> tuple[Tensor | None, ...]:
    """Gradients of query, key, value, pse, query_rope, key_rope and sink; undefined for what was not given."""
    call = _call("npu_fusion_attention_grad_v2", given)
    return (*gradients(call, *_inputs(given), given["dy"]), None, None, None)
