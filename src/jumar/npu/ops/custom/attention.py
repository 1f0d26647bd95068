"""`npu_fusion_attention`, the fused attention for training, and its gradient."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.ops.custom.attention_call import Lengths, check, gradients, make, run
from jumar.npu.ops.helpers import attention_core as core
from jumar.npu.ops.helpers.checks import refuse, refuse_given, require
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_fusion_attention", outputs=(0,), backward="npu_fusion_attention_grad")
def fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    scale: float,
    keep_prob: float,
    pre_tockens: int,
    next_tockens: int,
    inner_precise: int,
    prefix: Lengths,
    actual_seq_qlen: Lengths,
    actual_seq_kvlen: Lengths,
    sparse_mode: int,
    gen_mask_parallel: bool,
    sync: bool,
    softmax_layout: str,
    sink: Tensor | None,
    dropout_mask: Tensor | None,
    seed: int,
    offset: int,
) -> tuple[Any, ...]:
    """`dropout(softmax(scale * (query @ key^T + pse), masked)) @ value`.

    Results: the attention; the maximum and the sum of each row, float32, (B, N, Sq, 8) or (T, N, 8); an
    empty tensor; seed, offset and number of elements of the dropout mask.
    """
    operator = "npu_fusion_attention"
    del inner_precise, gen_mask_parallel, sync
    refuse_given(operator, "leave it out", padding_mask=padding_mask, sink=sink)
    call = make(
        operator,
        head_num,
        input_layout,
        scale=scale,
        keep_prob=keep_prob,
        sparsity=core.Sparsity(
            mask=atten_mask, mode=sparse_mode, before=pre_tockens, after=next_tockens, prefix=tuple(prefix or ())
        ),
        ends=(actual_seq_qlen, actual_seq_kvlen),
        softmax_layout=softmax_layout,
        seed=seed,
        offset=offset,
        dropout_mask=dropout_mask,
    )
    check(call, query, key, value, pse)
    return run(call, query, key, value, pse)


@derivative("npu_fusion_attention")
def _fusion_attention_derivative(step: Step) -> dict[str, Any]:
    given, results = step.arguments, step.results
    if given["dropout_mask"] is not None and given["keep_prob"] != 1:
        refuse("npu_fusion_attention", "the gradient of a dropout mask that is given", "let the operator draw it")
    found = torch.ops.npu.npu_fusion_attention_grad(
        given["query"],
        given["key"],
        given["value"],
        step.gradients[0],
        given["head_num"],
        given["input_layout"],
        pse=given["pse"],
        atten_mask=given["atten_mask"],
        softmax_max=results[1],
        softmax_sum=results[2],
        softmax_in=results[3],
        attention_in=results[0],
        scale_value=given["scale"],
        keep_prob=given["keep_prob"],
        pre_tockens=given["pre_tockens"],
        next_tockens=given["next_tockens"],
        inner_precise=given["inner_precise"],
        seed=results[4],
        offset=results[5],
        numels=results[6],
        prefix=given["prefix"],
        actual_seq_qlen=given["actual_seq_qlen"],
        actual_seq_kvlen=given["actual_seq_kvlen"],
        sparse_mode=given["sparse_mode"],
        softmax_layout=given["softmax_layout"],
    )
    return dict(zip(("query", "key", "value", "pse"), found, strict=False))


@implements("npu_fusion_attention_grad", differentiable=False)
def fusion_attention_grad(
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
    scale_value: float,
    keep_prob: float,
    pre_tockens: int,
    next_tockens: int,
    seed: int,
    offset: int,
    prefix: Lengths,
    actual_seq_qlen: Lengths,
    actual_seq_kvlen: Lengths,
    sparse_mode: int,
    softmax_layout: str,
    sink: Tensor | None,
    **_: Any,
) -> tuple[Tensor | None, ...]:
    """Gradients of query, key, value, pse and sink; undefined for what was not given.

    The scores are computed again from query and key; the statistics of the forward are not needed for it.
    """
    operator = "npu_fusion_attention_grad"
    refuse_given(operator, "leave it out", padding_mask=padding_mask, sink=sink)
    call = make(
        operator,
        head_num,
        input_layout,
        scale=scale_value,
        keep_prob=keep_prob,
        sparsity=core.Sparsity(
            mask=atten_mask, mode=sparse_mode, before=pre_tockens, after=next_tockens, prefix=tuple(prefix or ())
        ),
        ends=(actual_seq_qlen, actual_seq_kvlen),
        softmax_layout=softmax_layout,
        seed=seed,
        offset=offset,
    )
    check(call, query, key, value, pse)
    require(keep_prob == 1 or seed != 0 or query.is_meta, f"{operator}: dropout needs the seed of the forward.")
    return (*gradients(call, query, key, value, pse, dy), None)
