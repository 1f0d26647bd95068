"""Check and compute a call of attention for training: padded or packed, with dropout.

Dropout draws a seed from PyTorch's generator and its mask from that seed, so the backward drops the same
probabilities. The bits of the mask are not those of the chip's Philox generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from jumar.npu.ops.custom.dropout import dropout_gen_mask_seeded, unpack_bits
from jumar.npu.ops.helpers import attention_core as core
from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse, require_dtype
from jumar.npu.ops.mechanism.gradients import differentiate

Tensor = torch.Tensor
Lengths = Sequence[int] | None

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")
_STATISTICS = 8
"""The AI core writes each row's maximum and sum eight times: one block of 32 bytes."""
_ALIBI_ROWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call without its query, key and value."""

    operator: str
    head_num: int
    layout: str
    scale: float
    keep_prob: float
    sparsity: core.Sparsity
    bias_first: bool = True
    query_lengths: tuple[int, ...] = ()
    """Lengths of the sequences that TND packs."""
    key_lengths: tuple[int, ...] = ()
    softmax_layout: str = ""
    seed: int = 0
    offset: int = 0
    dropout_mask: Tensor | None = None


def lengths(ends: Lengths) -> tuple[int, ...]:
    """Return the lengths of sequences that end at these positions; a trailing 0 is a sequence left out."""
    found, start = [], 0
    for end in ends or ():
        found.append(max(end - start, 0))
        start = max(end, start)
    return tuple(found)


def check(call: Call, query: Tensor, key: Tensor, value: Tensor, pse: Tensor | None) -> None:
    """Raise RuntimeError for what the operator does not take."""
    operator, layout = call.operator, call.layout
    require_dtype(operator, FLOATING, query=query, key=key, value=value, pse=pse)
    expect(
        len({t.dtype for t in (query, key, value)}) == 1,
        operator,
        "query, key and value must have one dtype",
        [str(t.dtype) for t in (query, key, value)],
    )
    expect(call.head_num > 0, operator, "head_num must be greater than 0", call.head_num)
    expect(layout in LAYOUTS, operator, f"input_layout must be one of {', '.join(LAYOUTS)}", repr(layout))
    expect(0 < call.keep_prob <= 1, operator, "keep_prob must be in the range (0, 1]", call.keep_prob)
    num_dims = len(layout)
    expect(
        query.dim() == key.dim() == value.dim() == num_dims,
        operator,
        f"{layout} tensors have {num_dims} dimensions",
        [t.dim() for t in (query, key, value)],
    )
    modes = (0, 1, 2, 3, 4, 6, 7, 8) if layout == "TND" else range(7)
    expect(
        call.sparsity.mode in modes,
        operator,
        f"sparse_mode with {layout} must be one of {list(modes)}",
        call.sparsity.mode,
    )
    expect(
        call.softmax_layout in ("", "TND"), operator, "softmax_layout must be '' or 'TND'", repr(call.softmax_layout)
    )
    expect(not call.softmax_layout or layout == "TND", operator, "softmax_layout 'TND' needs input_layout TND", layout)
    if layout == "TND":
        same = len(call.query_lengths) == len(call.key_lengths) > 0
        expect(
            same,
            operator,
            "actual_seq_qlen and actual_seq_kvlen must be given, with the same length",
            [
                len(call.query_lengths),
                len(call.key_lengths),
            ],
        )
    if call.sparsity.mode == 6 and call.sparsity.mask is not None:
        expect(bool(call.sparsity.prefix), operator, "sparse_mode 6 needs prefix", "None")
    core.check_compressed(operator, call.sparsity)
    if pse is not None and (layout == "TND" or pse.shape[-2] == _ALIBI_ROWS < query.shape[_sequence_dim(layout)]):
        refuse(operator, "compressed position encodings and those of TND", "give the whole pse of a padded layout")


def _sequence_dim(layout: str) -> int:
    return layout.index("S" if "S" in layout else "T")


def num_dropped(call: Call, query: Tensor, key: Tensor) -> int:
    """Return the number of probabilities: the bits of the dropout mask."""
    if call.layout == "TND":
        return call.head_num * sum(q * k for q, k in zip(call.query_lengths, call.key_lengths, strict=True))
    dim = _sequence_dim(call.layout)
    return query.shape[call.layout.index("B")] * call.head_num * query.shape[dim] * key.shape[dim]


def forward(call: Call, query: Tensor, key: Tensor, value: Tensor, pse: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the attention in the layout of the query, the row maxima and the row sums."""
    num_heads = call.head_num
    q = core.heads_first(query, call.layout, num_heads)
    own = key.shape[-1] // q.shape[-1] if call.layout in ("BSH", "SBH") else 0
    k, v = (core.heads_first(x, call.layout, own) for x in (key, value))
    expect(q.shape[1] == num_heads, call.operator, f"the query must have head_num={num_heads} heads", q.shape[1])
    expect(q.shape[-1] == k.shape[-1], call.operator, "query and key must have the same head size", k.shape[-1])
    k, v = (core.repeated(x, num_heads, call.operator) for x in (k, v))
    kept = _kept(call, query, key)
    compute = _packed if call.layout == "TND" else _padded
    result, top, total = compute(call, q, k, v, pse, kept)
    return core.heads_back(result, call.layout).to(query.dtype), _eightfold(top), _eightfold(total)


def _eightfold(statistics: Tensor) -> Tensor:
    return statistics.detach().expand(*statistics.shape[:-1], _STATISTICS).contiguous()


def _kept(call: Call, query: Tensor, key: Tensor) -> Tensor | None:
    """Return which probabilities are kept, as a flat list of all."""
    if call.keep_prob == 1:
        return None
    num = num_dropped(call, query, key)
    mask = call.dropout_mask
    if mask is None:
        like = torch.empty(0, device=query.device)
        mask = dropout_gen_mask_seeded(
            like, [num], 1 - call.keep_prob, call.seed, call.offset, parallel=True, sync=False
        )
    return unpack_bits(mask.flatten(), num)


def _padded(
    call: Call, q: Tensor, k: Tensor, v: Tensor, pse: Tensor | None, kept: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    num_queries, num_keys = q.shape[2], k.shape[2]
    sparsity = call.sparsity
    if sparsity.mode == 6 and sparsity.mask is not None:
        each = [core.hidden(sparsity, num_queries, num_keys, q.device, b) for b in range(q.shape[0])]
        blind: Tensor | None = torch.stack([one for one in each if one is not None]).unsqueeze(1)
    else:
        blind = core.hidden(sparsity, num_queries, num_keys, q.device)
    if kept is not None:
        kept = kept.reshape(*q.shape[:3], num_keys)
    how = core.Scores(
        scale=call.scale, bias=pse, bias_first=call.bias_first, hidden=blind, kept=kept, keep_prob=call.keep_prob
    )
    return core.attend(q, k, v, how)


def _packed(
    call: Call, q: Tensor, k: Tensor, v: Tensor, _pse: Tensor | None, kept: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend within each of the sequences that are packed along the third dimension."""
    num_heads, used = q.shape[1], 0
    pairs = list(zip(call.query_lengths, call.key_lengths, strict=True))
    results: list[Tensor] = []
    statistics: list[tuple[Tensor, Tensor]] = []
    for batch, (part, (num_queries, num_keys)) in enumerate(zip(_parts(pairs), pairs, strict=True)):
        bits = None
        if kept is not None:
            num = num_heads * num_queries * num_keys
            bits = kept[used : used + num].reshape(1, num_heads, num_queries, num_keys)
            used += num
        blind = core.hidden(_of_sequence(call, batch, num_queries, num_keys), num_queries, num_keys, q.device, batch)
        how = core.Scores(scale=call.scale, hidden=blind, kept=bits, keep_prob=call.keep_prob)
        result, top, total = core.attend(q[:, :, part[0]], k[:, :, part[1]], v[:, :, part[1]], how)
        results.append(result)
        statistics.append((top, total))
    missing = q.shape[2] - sum(call.query_lengths)
    results.append(q.new_zeros((1, num_heads, missing, v.shape[-1]), dtype=torch.float32))
    tops, totals = (
        _arranged([pair[i] for pair in statistics], missing, num_heads, call.softmax_layout) for i in range(2)
    )
    return torch.cat(results, 2), tops, totals


def _parts(pairs: list[tuple[int, int]]) -> list[tuple[slice, slice]]:
    found, query, key = [], 0, 0
    for num_queries, num_keys in pairs:
        found.append((slice(query, query + num_queries), slice(key, key + num_keys)))
        query, key = query + num_queries, key + num_keys
    return found


def _of_sequence(call: Call, batch: int, num_queries: int, num_keys: int) -> core.Sparsity:
    """Return the sparsity of one packed sequence: masks cut to it, the modes of cut sequences resolved."""
    sparsity = call.sparsity
    if sparsity.mask is None:
        return sparsity
    if sparsity.mode in (0, 1):
        return replace(sparsity, mask=sparsity.mask[..., :num_queries, :num_keys])
    if sparsity.mode == 7:
        return replace(sparsity, mode=4 if batch == len(call.query_lengths) - 1 else 3)
    if sparsity.mode == 8:
        return replace(sparsity, mode=4 if batch == 0 else 2)
    return sparsity


def _arranged(parts: list[Tensor], missing: int, num_heads: int, layout: str) -> Tensor:
    """Return row statistics (1, N, S, 1) of the sequences as (T, N, 1).

    With softmax_layout TND that is what it holds. By default each sequence is written with its heads first,
    and the shape says nothing about it.
    """
    first = parts[0]
    rest = first.new_zeros(missing, num_heads, 1)
    if layout == "TND":
        return torch.cat([*(part.squeeze(0).transpose(0, 1) for part in parts), rest])
    return torch.cat([*(part.flatten() for part in parts), rest.flatten()]).reshape(-1, num_heads, 1)


def run(call: Call, query: Tensor, key: Tensor, value: Tensor, pse: Tensor | None) -> tuple[Any, ...]:
    """Return the seven results of the forward operators."""
    if call.keep_prob != 1 and not call.seed and not query.is_meta:
        call = replace(call, seed=int(torch.randint(1, 2**62, ())))
    result, top, total = forward(call, query, key, value, pse)
    num = 0 if query.is_meta else num_dropped(call, query, key)
    return result, top, total, query.new_empty(0), call.seed, call.offset, num


def gradients(
    call: Call, query: Tensor, key: Tensor, value: Tensor, pse: Tensor | None, dy: Tensor
) -> list[Tensor | None]:
    """Return the gradients of query, key, value and pse for the gradient `dy` of the attention."""
    return differentiate(lambda q, k, v, bias: forward(call, q, k, v, bias)[0], [query, key, value, pse], [dy])
