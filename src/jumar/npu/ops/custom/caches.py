"""Writes into caches: keys and values of attention, and slices by index."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect, refuse, refuse_given
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor


@implements("npu_scatter_nd_update", differentiable=False)
def scatter_nd_update(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy of `x` with `updates[i]` at `x[indices[i]]`; the last dimension of `indices` is an index into `x`."""
    depth = indices.shape[-1]
    expect(0 < depth <= x.dim(), "npu_scatter_nd_update", f"indices must index 1 to {x.dim()} dimensions", depth)
    expected = (*indices.shape[:-1], *x.shape[depth:])
    rule = f"updates must have the shape {tuple(expected)}"
    expect(tuple(updates.shape) == tuple(expected), "npu_scatter_nd_update", rule, tuple(updates.shape))
    places: list[Tensor | None] = list(indices.long().unbind(-1))
    return x.clone().index_put_(places, updates.to(x.dtype))


def _to_slots(cache: Tensor, tokens: Tensor, slots: Tensor, mode: str) -> Tensor:
    """Return the cache with each token in its slot: block `slot // block_size`, row `slot % block_size`.

    `Norm` caches are (blocks, block_size, heads, D). `PA_NZ` caches are (blocks, heads * D / 16, block_size,
    16), 32 for 8-bit types. A negative slot writes nothing.
    """
    kept = torch.arange(slots.numel(), device=slots.device) if slots.is_meta else (slots >= 0).nonzero().squeeze(1)
    used = slots.long().index_select(0, kept)
    rows = tokens.index_select(0, kept)
    found = cache.clone()
    if mode == "Norm":
        size = cache.shape[1]
        return found.index_put_([used // size, used % size], rows.reshape(-1, *cache.shape[2:]))
    size, fractal = cache.shape[2], cache.shape[3]
    fractals = rows.reshape(-1, cache.shape[1], fractal)
    columns = torch.arange(cache.shape[1], device=cache.device)
    return found.index_put_([(used // size).unsqueeze(1), columns.unsqueeze(0), (used % size).unsqueeze(1)], fractals)


def _scattered(
    operator: str, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor, mode: str | None
) -> tuple[Tensor, Tensor]:
    if mode not in ("Norm", "PA_NZ"):
        refuse(operator, f"the cache mode {mode!r}", "use 'Norm' or 'PA_NZ'")
    expect(key.shape[0] == slots.numel(), operator, f"slot_mapping must have {key.shape[0]} slots", slots.numel())
    return _to_slots(key_cache, key, slots, mode or ""), _to_slots(value_cache, value, slots, mode or "")


@implements("npu_scatter_pa_kv_cache")
def scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    cache_mode: str | None,
    **compression: Any,
) -> None:
    """Write the tokens (T, heads, D) into paged caches, in place; `cache_mode` is Norm or PA_NZ."""
    operator = "npu_scatter_pa_kv_cache"
    refuse_given(operator, "leave the compression out", **compression)
    keys, values = _scattered(operator, key, value, key_cache, value_cache, slot_mapping, cache_mode)
    key_cache.copy_(keys)
    value_cache.copy_(values)


@implements("npu_scatter_pa_kv_cache_functional", differentiable=False)
def scatter_pa_kv_cache_functional(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    cache_mode: str | None,
    **compression: Any,
) -> tuple[Tensor, Tensor]:
    """`npu_scatter_pa_kv_cache` that gives the new caches."""
    operator = "npu_scatter_pa_kv_cache_functional"
    refuse_given(operator, "leave the compression out", **compression)
    return _scattered(operator, key, value, key_cache, value_cache, slot_mapping, cache_mode)
