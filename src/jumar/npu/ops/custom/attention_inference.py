"""Attention for inference: prompt, incremental and fused attention over padded or paged keys and values.

Quantised keys, shared prefixes, left padding and rotary parts are refused. Sources: the adapter's pages of
npu_prompt_flash_attention, npu_incre_flash_attention and npu_fused_infer_attention_score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from jumar.npu.ops.custom.attention_call import lengths
from jumar.npu.ops.helpers import attention_core as core
from jumar.npu.ops.helpers.checks import HALF, expect, refuse, refuse_given, require_dtype
from jumar.npu.ops.mechanism.implement import implements
from jumar.npu.ops.mechanism.schemas import schemas

Tensor = torch.Tensor
Lengths = Sequence[int] | None

_ADVICE = "leave it out, or dequantise first"
_TAKEN = (
    "pse_shift",
    "atten_mask",
    "actual_seq_lengths",
    "actual_seq_lengths_kv",
    "actual_seq_qlen",
    "actual_seq_kvlen",
    "block_table",
    "workspace",
)
"""Optional arguments that are emulated; any other that is given is refused."""
_LAYOUTS = {"BSH": "BSH", "BSND": "BSND", "BNSD": "BNSD", "BNSD_BSND": "BNSD", "TND": "TND"}
"""Layout of the query by input_layout. BNSD_BSND gives the result in BSND."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """One call without its query, key and value."""

    operator: str
    layout: str
    num_heads: int
    num_key_heads: int
    scale: float
    sparsity: core.Sparsity
    query_lengths: Lengths = None
    key_lengths: Lengths = None
    bias: Tensor | None = None
    block_table: Tensor | None = None
    block_size: int = 0
    is_fast: bool = False
    """Whether float16 queries have float16 scores: bit 0 of `inner_precise`, which the prompt operator always sets."""


def infer(call: Inference, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the attention in its layout and the log-sum-exp of the scores, (B, N, S, 1) or (T, N, 1)."""
    operator = call.operator
    require_dtype(operator, HALF, query=query, key=key, value=value)
    expect(call.num_heads > 0, operator, "the number of heads must be greater than 0", call.num_heads)
    expect(call.layout in _LAYOUTS, operator, f"input_layout must be one of {', '.join(_LAYOUTS)}", call.layout)
    expect(call.sparsity.mode in range(5), operator, "sparse_mode must be in the range [0, 4]", call.sparsity.mode)
    core.check_compressed(operator, call.sparsity)
    if call.layout == "TND" and call.bias is not None:
        refuse(operator, "pse_shift with TND", "leave it out")
    layout = _LAYOUTS[call.layout]
    own = call.num_key_heads or call.num_heads
    q = core.heads_first(query, layout, call.num_heads)
    if call.block_table is not None:
        pairs = [_from_blocks(call, item, own) for item in (key, value)]
    else:
        pairs = [core.heads_first(item, layout, own) for item in (key, value)]
    k, v = (core.repeated(item, call.num_heads, operator) for item in pairs)
    result, lse = _each(call, q, k, v)
    return core.heads_back(result, "BSND" if call.layout == "BNSD_BSND" else layout).to(query.dtype), lse


def _from_blocks(call: Inference, cache: Tensor, own: int) -> Tensor:
    """Return the keys or values (B, N, S, D) of a paged cache.

    The cache is (blocks, block_size, N * D) or (blocks, N, block_size, D).
    """
    table = call.block_table
    assert table is not None
    blocks = cache.index_select(0, table.flatten().clamp(min=0).long())
    if cache.dim() == 3:
        blocks = blocks.reshape(*blocks.shape[:2], own, -1).transpose(1, 2)
    size = blocks.shape[2]
    expect(size == call.block_size, call.operator, "block_size must be that of the cache", call.block_size)
    found = blocks.reshape(*table.shape, own, size, -1).permute(0, 2, 1, 3, 4)
    return found.reshape(table.shape[0], own, table.shape[1] * size, -1)


def _each(call: Inference, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend sequence by sequence, each over the length it has."""
    if call.layout == "TND":
        return _packed(call, q, k, v)
    num_batches = q.shape[0]
    queries = _per_batch(call.query_lengths, num_batches, q.shape[2])
    keys = _per_batch(call.key_lengths, num_batches, k.shape[2])
    result = q.new_zeros((*q.shape[:3], v.shape[-1]), dtype=torch.float32)
    lse = q.new_zeros((*q.shape[:3], 1), dtype=torch.float32)
    for b, (num_queries, num_keys) in enumerate(zip(queries, keys, strict=True)):
        part = (slice(b, b + 1), slice(None), slice(0, num_queries))
        found = _one(call, b, q[part], k[b : b + 1, :, :num_keys], v[b : b + 1, :, :num_keys])
        result[part], lse[part] = found
    return result, lse


def _per_batch(given: Lengths, num_batches: int, whole: int) -> list[int]:
    if not given:
        return [whole] * num_batches
    return [int(given[0])] * num_batches if len(given) == 1 else [int(item) for item in given[:num_batches]]


def _packed(call: Inference, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    expect(bool(call.query_lengths), call.operator, "TND needs actual_seq_lengths", call.query_lengths)
    queries = lengths(call.query_lengths)
    paged = call.block_table is not None
    keys = tuple(int(n) for n in call.key_lengths or ()) if paged else lengths(call.key_lengths or call.query_lengths)
    result = q.new_zeros((*q.shape[:3], v.shape[-1]), dtype=torch.float32)
    lse = q.new_zeros((*q.shape[:3], 1), dtype=torch.float32)
    start = first = 0
    for b, (num_queries, num_keys) in enumerate(zip(queries, keys, strict=True)):
        part = (slice(None), slice(None), slice(start, start + num_queries))
        if paged:
            mine = (slice(b, b + 1), slice(None), slice(0, num_keys))
        else:
            mine = (slice(0, 1), slice(None), slice(first, first + num_keys))
        result[part], lse[part] = _one(call, b, q[part], k[mine], v[mine])
        start, first = start + num_queries, first + num_keys
    return result, lse.squeeze(0).transpose(0, 1)


def _one(call: Inference, batch: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    num_queries, num_keys = q.shape[2], k.shape[2]
    sparsity = call.sparsity
    mask, bias = sparsity.mask, call.bias
    if mask is not None and sparsity.mode in (0, 1):
        mask = _mask_of(mask, batch, num_queries, num_keys)
        sparsity = core.Sparsity(mask=mask, mode=sparsity.mode, before=sparsity.before, after=sparsity.after)
    if bias is not None:
        bias = bias[batch : batch + 1] if bias.shape[0] > 1 else bias
        bias = bias[..., :num_queries, :num_keys]
    blind = core.hidden(sparsity, num_queries, num_keys, q.device)
    halved = call.is_fast and q.dtype is torch.float16
    scores = core.Scores(scale=call.scale, bias=bias, hidden=blind, halved=halved)
    result, top, total = core.attend(q, k, v, scores)
    return result, top + total.log()


def _mask_of(mask: Tensor, batch: int, num_queries: int, num_keys: int) -> Tensor:
    """Return the part of a mask (S, S), (1 or B, S, S), (1 or B, 1, S, S), or (B, S) for one query, of a batch."""
    if mask.dim() == 2 and mask.shape[0] != num_queries and num_queries == 1:
        return mask[batch, :num_keys].unsqueeze(0)
    if mask.dim() > 2:
        mask = mask[batch if mask.shape[0] > 1 else 0]
    return mask[..., :num_queries, :num_keys]


def _call(operator: str, given: Mapping[str, Any], **different: Any) -> Inference:
    """Return the call that these arguments ask for, by the names that most of the operators have."""
    return Inference(
        **{
            "operator": operator,
            "layout": given["input_layout"],
            "num_heads": given.get("num_heads", 0),
            "num_key_heads": given["num_key_value_heads"],
            "scale": given.get("scale_value", 1.0),
            "sparsity": core.Sparsity(
                mask=given["atten_mask"],
                mode=given.get("sparse_mode", 0),
                before=given.get("pre_tokens", core.UNLIMITED),
                after=given.get("next_tokens", core.UNLIMITED),
            ),
            "bias": given["pse_shift"],
            "block_table": given.get("block_table"),
            "block_size": given.get("block_size", 0),
            "is_fast": bool(given.get("inner_precise", 0) & 1),
            **different,
        }
    )


def _refuse_others(operator: str, given: Mapping[str, Any]) -> None:
    """Raise NotImplementedError for an optional argument, such as a quantisation scale, that is not emulated."""
    optional = (argument.name for argument in schemas()[operator].parsed.arguments if argument.default_value is None)
    refuse_given(operator, _ADVICE, **{name: given[name] for name in optional if name in given and name not in _TAKEN})


@implements("npu_prompt_flash_attention", differentiable=False, by_name=True)
def prompt_flash_attention(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Tensor:
    """`softmax(scale_value * query @ key^T + pse_shift, masked) @ value`; rows beyond a length are 0."""
    operator = "npu_prompt_flash_attention"
    _refuse_others(operator, given)
    lengths_of = {"query_lengths": given["actual_seq_lengths"], "key_lengths": given["actual_seq_lengths_kv"]}
    return infer(_call(operator, given, is_fast=True, **lengths_of), query, key, value)[0]


@implements("npu_incre_flash_attention", differentiable=False, by_name=True)
def incre_flash_attention(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Tensor:
    """Attention of one new query a sequence; `actual_seq_lengths` are those of the keys."""
    operator = "npu_incre_flash_attention"
    _refuse_others(operator, given)
    layout = given["input_layout"]
    sequence = layout.index("S") if layout in ("BSH", "BNSD", "BSND") else 0
    expect(sequence > 0, operator, "input_layout must be BSH, BNSD or BSND", repr(layout))
    expect(query.shape[sequence] == 1, operator, "the query must have one position", query.shape[sequence])
    return infer(_call(operator, given, key_lengths=given["actual_seq_lengths"]), query, key, value)[0]


@implements("npu_fused_infer_attention_score", differentiable=False, by_name=True)
def fused_infer_attention_score(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """`softmax(scale * query @ key^T + pse_shift, masked) @ value` and, if asked for, the log-sum-exp."""
    operator = "npu_fused_infer_attention_score"
    _refuse_others(operator, given)
    packed_or_long = given["input_layout"] == "TND" or query.shape[-2] > 1
    call = _call(
        operator,
        given,
        scale=given["scale"],
        query_lengths=given["actual_seq_lengths"] if packed_or_long else None,
        key_lengths=given["actual_seq_lengths_kv"],
    )
    result, lse = infer(call, query, key, value)
    return result, lse if given["softmax_lse_flag"] else query.new_empty(0, dtype=torch.float32)


@implements("npu_fused_infer_attention_score_v2", differentiable=False, by_name=True)
def fused_infer_attention_score_v2(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """`npu_fused_infer_attention_score` under the names of its second version."""
    operator = "npu_fused_infer_attention_score_v2"
    _refuse_others(operator, given)
    call = _call(
        operator,
        given,
        num_heads=given["num_query_heads"],
        scale=given["softmax_scale"],
        query_lengths=given["actual_seq_qlen"],
        key_lengths=given["actual_seq_kvlen"],
    )
    result, lse = infer(call, query, key, value)
    return result, lse if given["return_softmax_lse"] else query.new_empty(0, dtype=torch.float32)
