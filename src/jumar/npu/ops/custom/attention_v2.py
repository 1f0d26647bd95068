"""`npu_fusion_attention_v2`, which says where position encodings are added, and its gradient."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.ops.custom.attention_call import Lengths, check, gradients, make, run
from jumar.npu.ops.helpers import attention_core as core
from jumar.npu.ops.helpers.checks import expect, refuse, refuse_given
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_fusion_attention_v2", outputs=(0,), backward="npu_fusion_attention_grad_v2")
def fusion_attention_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: Tensor | None,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    scale: float,
    keep_prob: float,
    pre_tokens: int,
    next_tokens: int,
    prefix: Lengths,
    actual_seq_qlen: Lengths,
    actual_seq_kvlen: Lengths,
    sparse_mode: int,
    pse_type: int,
    softmax_layout: str,
    sink: Tensor | None,
    dropout_mask: Tensor | None,
    seed: int,
    offset: int,
    **_: Any,
) -> tuple[Any, ...]:
    """`npu_fusion_attention` with `pse_type` 0, which adds pse after scaling, or 1, which adds it before."""
    operator = "npu_fusion_attention_v2"
    refuse_given(
        operator, "leave it out", padding_mask=padding_mask, sink=sink, query_rope=query_rope, key_rope=key_rope
    )
    _check_pse_type(operator, pse_type)
    call = make(
        operator,
        head_num,
        input_layout,
        scale=scale,
        keep_prob=keep_prob,
        sparsity=core.Sparsity(
            mask=atten_mask, mode=sparse_mode, before=pre_tokens, after=next_tokens, prefix=tuple(prefix or ())
        ),
        ends=(actual_seq_qlen, actual_seq_kvlen),
        softmax_layout=softmax_layout,
        seed=seed,
        offset=offset,
        dropout_mask=dropout_mask,
        bias_first=pse_type == 1,
    )
    check(call, query, key, value, pse)
    return run(call, query, key, value, pse)


def _check_pse_type(operator: str, pse_type: int) -> None:
    expect(pse_type in range(4), operator, "pse_type must be in the range [0, 3]", pse_type)
    if pse_type > 1:
        refuse(operator, "position encodings that it makes itself", "use pse_type 0 or 1 and give pse")


@derivative("npu_fusion_attention_v2")
def _fusion_attention_v2_derivative(step: Step) -> dict[str, Any]:
    given, results = step.arguments, step.results
    if given["dropout_mask"] is not None and given["keep_prob"] != 1:
        refuse("npu_fusion_attention_v2", "the gradient of a dropout mask that is given", "let the operator draw it")
    same = (
        "pse",
        "atten_mask",
        "keep_prob",
        "pre_tokens",
        "next_tokens",
        "inner_precise",
        "prefix",
        "actual_seq_qlen",
        "actual_seq_kvlen",
        "sparse_mode",
        "pse_type",
        "q_start_idx",
        "kv_start_idx",
        "softmax_layout",
    )
    found = torch.ops.npu.npu_fusion_attention_grad_v2(
        given["query"],
        given["key"],
        given["value"],
        step.gradients[0],
        given["head_num"],
        given["input_layout"],
        softmax_max=results[1],
        softmax_sum=results[2],
        softmax_in=results[3],
        attention_in=results[0],
        scale_value=given["scale"],
        seed=results[4],
        offset=results[5],
        numels=results[6],
        **{name: given[name] for name in same},
    )
    return dict(zip(("query", "key", "value", "pse"), found, strict=False))


@implements("npu_fusion_attention_grad_v2", differentiable=False)
def fusion_attention_grad_v2(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: Tensor | None,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    scale_value: float,
    keep_prob: float,
    pre_tokens: int,
    next_tokens: int,
    seed: int,
    offset: int,
    prefix: Lengths,
    actual_seq_qlen: Lengths,
    actual_seq_kvlen: Lengths,
    sparse_mode: int,
    pse_type: int,
    softmax_layout: str,
    sink: Tensor | None,
    **_: Any,
) -> tuple[Tensor | None, ...]:
    """Gradients of query, key, value, pse, query_rope, key_rope and sink; undefined for what was not given."""
    operator = "npu_fusion_attention_grad_v2"
    refuse_given(
        operator, "leave it out", padding_mask=padding_mask, sink=sink, query_rope=query_rope, key_rope=key_rope
    )
    _check_pse_type(operator, pse_type)
    call = make(
        operator,
        head_num,
        input_layout,
        scale=scale_value,
        keep_prob=keep_prob,
        sparsity=core.Sparsity(
            mask=atten_mask, mode=sparse_mode, before=pre_tokens, after=next_tokens, prefix=tuple(prefix or ())
        ),
        ends=(actual_seq_qlen, actual_seq_kvlen),
        softmax_layout=softmax_layout,
        seed=seed,
        offset=offset,
        bias_first=pse_type == 1,
    )
    check(call, query, key, value, pse)
    return (*gradients(call, query, key, value, pse, dy), None, None, None)
