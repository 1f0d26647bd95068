"""`torch_npu.atb`: operators of the vendor's transformer library (Ascend Transformer Boost), in namespace `atb`.

Schemas and names: `op_plugin/ops/atb` and `op_plugin/python/atb/_atb_ops.py` of Ascend/op-plugin. What has a kernel
here writes its results into its arguments and calculates in float32. The other names raise NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.refusals import function
from jumar.npu.ops.custom.rope import rotated
from jumar.npu.ops.helpers.low_bits import to_int8

Tensor = torch.Tensor

ROOT_NAMES = (
    "_npu_flash_attention",
    "_npu_flash_attention_qlens",
    "_npu_flash_attention_unpad",
    "_npu_flash_attention_unpad_v2",
    "_npu_flash_attention_v3",
    "_npu_group_topk",
    "_npu_matmul_add_fp32",
    "_npu_paged_attention",
    "_npu_paged_attention_get_workspace",
    "_npu_paged_attention_mla",
    "_npu_paged_attention_quant",
    "_npu_paged_attention_splitfuse",
    "_npu_paged_attention_splitfuse_v2",
    "_npu_quant_rms_norm",
    "_npu_quantize_per_tensor",
    "_npu_reshape_and_cache",
    "_npu_reshape_and_cache_siso",
    "_npu_rotary_embedding",
)
"""Names of `torch_npu` itself."""
_OWN_NAMES = (
    "_npu_flash_attention_prefix_v2",
    "_npu_flash_attention_v2",
    "_npu_multi_head_latent_attention_get_workspace",
    "_npu_paged_attention_v2",
    "_npu_paged_attention_v2_get_workspace",
    "npu_fused_add_topk_div",
    "npu_mla_preprocess",
    "npu_multi_head_latent_attention",
    "npu_paged_cache_load",
    "npu_ring_mla",
    "npu_self_attention_prefix_encoder",
)
"""Names of `torch_npu.atb`."""

_library: Any = torch.library.Library("atb", "FRAGMENT")  # type: ignore[no-untyped-call]
"""Kept alive: PyTorch drops the kernels of a library that is collected."""
_KERNELS: set[str] = set()


def _operator(schema: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the decorated function as the kernel of an operator of that schema."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        name = schema.partition("(")[0]
        _library.define(schema)
        _library.impl(name, function, "PrivateUse1")
        _library.impl(name, lambda *_, **__: None, "Meta")
        _KERNELS.add(name)
        return function

    return register


@_operator("_npu_matmul_add_fp32(Tensor x, Tensor weight, Tensor(a!) C) -> ()")
def _matmul_add(x: Tensor, weight: Tensor, C: Tensor) -> None:
    """`C += x.T @ weight`: x (K, M) and weight (K, N) in float16 or bfloat16, C (M, N) in float32."""
    C.add_(x.float().t() @ weight.float())


@_operator(
    "_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
    "Tensor slot_indices) -> ()"
)
def _reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> None:
    """Write (tokens, heads, size) at slots of caches (blocks, block size, heads, size)."""
    _into_cache(key, key_cache, slot_indices)
    _into_cache(value, value_cache, slot_indices)


@_operator("_npu_reshape_and_cache_siso(Tensor key, Tensor(a!) key_cache, Tensor slot_indices) -> ()")
def _reshape_and_cache_siso(key: Tensor, key_cache: Tensor, slot_indices: Tensor) -> None:
    """Write (tokens, heads, size) at slots of one cache (blocks, block size, heads, size)."""
    _into_cache(key, key_cache, slot_indices)


def _into_cache(values: Tensor, cache: Tensor, slots: Tensor) -> None:
    index, block = slots.flatten().long(), cache.shape[1]
    cache[index // block, index % block] = values.reshape(index.numel(), *cache.shape[2:]).to(cache.dtype)


@_operator(
    "_npu_rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_size, Tensor cos_sin_cache, "
    "bool is_neox_style) -> ()"
)
def _rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool
) -> None:
    """Turn query and key (tokens, heads * head_size) in place; the cache is (positions, size), cosines then sines."""
    mode = "half" if is_neox_style else "interleave"
    cos, sin = cos_sin_cache.float().index_select(0, positions.flatten().long()).chunk(2, -1)
    spread = (
        (lambda part: torch.cat((part, part), -1)) if is_neox_style else (lambda part: part.repeat_interleave(2, -1))
    )
    cos, sin = spread(cos).unsqueeze(1), spread(sin).unsqueeze(1)
    size = cos.shape[-1]
    for tensor in (query, key):
        heads = tensor.float().reshape(positions.numel(), -1, head_size)
        moved = heads[..., :size] * cos + rotated(heads[..., :size], mode) * sin
        tensor.copy_(torch.cat((moved, heads[..., size:]), -1).reshape(tensor.shape))


@_operator(
    "_npu_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, "
    "float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out, *, Tensor? workspace=None) -> ()"
)
def _paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    workspace: Tensor | None = None,
) -> None:
    """Attention of one new token a sequence, (sequences, heads, size), over cached keys and values.

    `block_table` (sequences, blocks) names the blocks of each sequence, `context_lens` says how many tokens it has.
    """
    del workspace
    queries = query.float().reshape(query.shape[0], num_kv_heads, num_heads // num_kv_heads, -1)
    results = []
    for sequence, length in enumerate(context_lens.tolist()):
        blocks = block_table[sequence, : -(-length // key_cache.shape[1])].long()
        keys, values = (
            cache.index_select(0, blocks).flatten(0, 1)[:length].float().transpose(0, 1)
            for cache in (key_cache, value_cache)
        )
        weights = torch.softmax(queries[sequence] @ keys.transpose(1, 2) * scale_value, -1)
        results.append((weights @ values).reshape(num_heads, -1))
    out.copy_(torch.stack(results).reshape(out.shape))


@_operator("_npu_quantize_per_tensor(Tensor x, Tensor scale, Tensor zero_point, Tensor(a!) y) -> ()")
def _quantize_per_tensor(x: Tensor, scale: Tensor, zero_point: Tensor, y: Tensor) -> None:
    """Write `x / scale + zero_point`, rounded and cut to int8, into y."""
    y.copy_(to_int8(x.float() / scale.float() + zero_point.float()))


def _function(name: str) -> Callable[..., Any]:
    """Return what `torch_npu` has under a name: the operator, or a function that refuses."""
    home = "torch_npu" if name in ROOT_NAMES else "torch_npu.atb"
    return getattr(torch.ops.atb, name) if name in _KERNELS else function(f"{home}.{name}")  # type: ignore[no-any-return]


globals().update({name: _function(name) for name in (*ROOT_NAMES, *_OWN_NAMES)})
__all__ = [*_OWN_NAMES]  # noqa: PLE0604 (names that the vendor's list gives)
