"""Matrix products with quantised operands, and fused feed-forward layers and all-reduces.

Products of int8 are summed exactly in int32, as the cube unit does; the rest is in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers import low_bits
from jumar.npu.ops.helpers.checks import HALF, expect, refuse, refuse_given, require_dtype, wide
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_PER_WORD = 8
"""Integers of 4 bits in a word of int32."""


def summed(x1: Tensor, x2: Tensor) -> Tensor:
    """Return the product of integer matrices as int32 sums."""
    return x1.int() @ x2.int()


@implements("npu_quant_matmul", differentiable=False)
def quant_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    output_dtype: int | None,
    group_sizes: Sequence[int] | None,
    **others: Any,
) -> Tensor:
    """`(x1 @ x2 + int32 bias) * scale * pertoken_scale + offset or floating bias` of int8 (..., M, K) and (..., K, N).

    `scale` is one number or (N,), in float32, bfloat16 or as the words of `npu_trans_quant_param`. Results
    are int8 unless `output_dtype` says float16, bfloat16, float32 or int32. int32 matrices hold 8 integers of 4 bits a
    word: both of them, or x2 alone (`_a8w4`). `group_sizes` is for the latter.
    """
    operator = "npu_quant_matmul"
    require_dtype(operator, (torch.int8, torch.int32), x1=x1, x2=x2)
    if x2.dtype == torch.int32:
        weight = _of_words(x2, x1.shape[-1] * (_PER_WORD if x1.dtype == torch.int32 else 1))
        if x1.dtype == torch.int8:
            require_dtype(operator, (torch.float32, torch.int64), scale=scale)
            refuse_given(operator, "leave it out", bias=bias, **others)
            return _a8w4(x1, weight, scale, offset, pertoken_scale, output_dtype, group_sizes)
        x1, x2 = low_bits.unpack_int4(x1), weight
    expect(x1.dtype == x2.dtype, operator, "x1 and x2 must both be int8 or both int32", (x1.dtype, x2.dtype))
    refuse_given(operator, "leave it out", group_sizes=group_sizes)
    require_dtype(operator, (torch.float32, torch.bfloat16, torch.int64), scale=scale)
    require_dtype(operator, (torch.int32, torch.float32, *HALF), bias=bias)
    refuse_given(operator, "leave it out", **others)
    target = low_bits.dtype_of(output_dtype, torch.int8, operator)
    only_int8 = offset is None or target == torch.int8
    expect(only_int8, operator, "offset needs an int8 result", str(target))
    sums = summed(x1, x2)
    if bias is not None and bias.dtype == torch.int32:
        sums = sums + bias
    if target == torch.int32:
        return sums
    values = sums.float() * low_bits.scale_of(scale)
    if pertoken_scale is not None:
        values = values * pertoken_scale.float().unsqueeze(-1)
    if bias is not None and bias.dtype != torch.int32:
        values = values + wide(bias)
    added = offset if offset is not None else low_bits.offset_of(scale)
    if target == torch.int8:
        return low_bits.to_int8(values if added is None else values + added)
    return values.to(target)


def _of_words(words: Tensor, depth: int) -> Tensor:
    """Return the integers (depth, N) in words (depth, N / 8), or in (depth / 8, N) that is a transposed view."""
    if words.shape[-2] != depth and words.shape[-2] * _PER_WORD == depth and words.stride(-2) == 1:
        return low_bits.unpack_int4(words.mT).mT
    return low_bits.unpack_int4(words)


def _a8w4(
    x1: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    output_dtype: int | None,
    group_sizes: Sequence[int] | None,
) -> Tensor:
    """Return `(x1 @ (weight * scale) + offset) * pertoken_scale` of int8 (M, K) and 4-bit integers (K, N).

    `scale` is (N,), or (K / group, N) for groups of K. `offset` is (N,), `pertoken_scale` (M, 1), both float32
    (`aclnnQuantMatmulV5`, A8W4 with yOffset).
    """
    operator = "npu_quant_matmul"
    target = low_bits.dtype_of(output_dtype, torch.int8, operator)
    expect(target in HALF, operator, "int8 by 4-bit products are float16 or bfloat16; set output_dtype", str(target))
    expect(x1.dim() == weight.dim() == 2, operator, "int8 by 4-bit products are of matrices", x1.dim())
    depth = x1.shape[1]
    factors = low_bits.scale_of(scale)
    groups = factors.shape[0] if factors.dim() == 2 else 1
    expect(depth % groups == 0, operator, f"the groups of scale must divide K = {depth}", groups)
    size = depth // groups
    if group_sizes:
        wanted = list(group_sizes)[-1]
        expect(wanted in (0, size), operator, f"group_sizes must end in K / groups = {size}", wanted)
    sums = summed(x1.reshape(-1, groups, size).transpose(0, 1), weight.reshape(groups, size, -1)).float()
    values = (sums * factors.reshape(groups, 1, -1)).sum(0)
    if offset is not None:
        values = values + offset.float()
    if pertoken_scale is not None:
        values = values * pertoken_scale.float().reshape(-1, 1)
    return values.to(target)


def dequantised(weight: Tensor, scale: Tensor, offset: Tensor | None, group_size: int, operator: str) -> Tensor:
    """Return `(weight + offset) * scale` of int8 (K, N), or 4-bit integers packed along N in int32, in float32.

    With a scale of float16 each step is rounded to float16: Ascend/pytorch's `test_linear_weight_quant.py`.
    Scales have one element, (N,), (1, N), or with groups (K / group_size, N).
    """
    require_dtype(operator, (torch.int8, torch.int32), weight=weight)
    values = (low_bits.unpack_int4(weight) if weight.dtype == torch.int32 else weight).float()

    def spread(parameter: Tensor) -> Tensor:
        wider = wide(parameter)
        return wider.repeat_interleave(group_size, 0)[: values.shape[-2]] if group_size else wider

    if scale.dtype is torch.float16:  # the vector unit has a float16 form of both steps, and none for bfloat16
        values = values.half()
        return ((values if offset is None else values + spread(offset).half()) * spread(scale).half()).float()
    if offset is not None:
        values = values + spread(offset)
    return values * spread(scale)


@implements("npu_weight_quant_batchmatmul", differentiable=False)
def weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    bias: Tensor | None,
    antiquant_group_size: int,
    _inner_precise: int,
    weight_dtype: int | None,
) -> Tensor:
    """`x @ ((weight + antiquant_offset) * antiquant_scale) + bias`, quantised to int8 by `quant_scale` if given.

    `x` is (M, K) in float16 or bfloat16; the weight is rounded to that type before the product.
    """
    operator = "npu_weight_quant_batchmatmul"
    require_dtype(operator, HALF, x=x, antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset)
    refuse_given(operator, "leave it out", weight_dtype=weight_dtype)
    full = dequantised(weight, antiquant_scale, antiquant_offset, antiquant_group_size, operator).to(x.dtype)
    values = x.float() @ full.float()
    if bias is not None:
        values = values + wide(bias)
    if quant_scale is None:
        return values.to(x.dtype)
    values = values * low_bits.scale_of(quant_scale)
    return low_bits.to_int8(values if quant_offset is None else values + quant_offset.float())


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
}


@implements("npu_ffn", differentiable=False)
def ffn(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    activation: str,
    *,
    expert_tokens: Sequence[int] | None,
    expert_tokens_index: Sequence[int] | None,
    bias1: Tensor | None,
    bias2: Tensor | None,
    inner_precise: int | None,
    output_dtype: torch.dtype | None,
    **quantisation: Any,
) -> Tensor:
    """`activation(x @ weight1 + bias1) @ weight2 + bias2`; with experts, weights (E, K, N) and tokens a group each.

    `expert_tokens` counts the tokens of each expert, `expert_tokens_index` says where each expert's end.
    """
    operator = "npu_ffn"
    del inner_precise
    refuse_given(operator, "dequantise first", **quantisation)
    require_dtype(operator, HALF, x=x, weight1=weight1, weight2=weight2)
    expect(output_dtype in (None, x.dtype), operator, "output_dtype must be that of x", output_dtype)
    if activation not in _ACTIVATIONS:
        refuse(operator, f"the activation {activation!r}", f"use one of {', '.join(_ACTIVATIONS)}")
    counts = _counts(expert_tokens, expert_tokens_index)
    if counts is None:
        return _feed(x, weight1, weight2, bias1, bias2, activation).to(x.dtype)
    total = sum(counts)
    expect(total == x.shape[0], operator, f"the experts' tokens must add up to {x.shape[0]}", total)
    parts = [
        _feed(part, weight1[e], weight2[e], _of(bias1, e), _of(bias2, e), activation)
        for e, part in enumerate(torch.split(x, counts))
    ]
    return torch.cat(parts).to(x.dtype)


def _of(bias: Tensor | None, expert: int) -> Tensor | None:
    return None if bias is None else bias[expert]


def _counts(tokens: Sequence[int] | None, ends: Sequence[int] | None) -> list[int] | None:
    if tokens:
        return list(tokens)
    if not ends:
        return None
    return [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _feed(
    x: Tensor, weight1: Tensor, weight2: Tensor, bias1: Tensor | None, bias2: Tensor | None, activation: str
) -> Tensor:
    inner = x.float() @ weight1.float()
    inner = _ACTIVATIONS[activation](inner if bias1 is None else inner + bias1.float()).to(x.dtype)
    outer = inner.float() @ weight2.float()
    return outer if bias2 is None else outer + bias2.float()


@implements("npu_mm_all_reduce_base", differentiable=False)
def mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str,
    bias: Tensor | None,
    antiquant_scale: Tensor | None,
    antiquant_offset: Tensor | None,
    x3: Tensor | None,
    antiquant_group_size: int,
    comm_turn: int,
    comm_quant_mode: int,
    **others: Any,
) -> Tensor:
    """`x1 @ x2 + bias + x3` summed over the ranks of the group named `hcom`.

    With `antiquant_scale`, x2 is quantised and dequantised first. x1 is (..., K), x2 (K, N).
    """
    operator = "npu_mm_all_reduce_base"
    del comm_turn, comm_quant_mode
    refuse_given(operator, "leave it out", **others)
    require_dtype(operator, HALF, x1=x1, x3=x3)
    expect(reduce_op == "sum", operator, "reduce_op must be 'sum'", repr(reduce_op))
    right = x2
    if antiquant_scale is not None:
        right = dequantised(x2, antiquant_scale, antiquant_offset, antiquant_group_size, operator).to(x1.dtype)
    values = x1.float() @ right.float()
    for addend in (bias, x3):
        if addend is not None:
            values = values + addend.float()
    return summed_over_ranks(values.to(x1.dtype), hcom, operator)


def summed_over_ranks(values: Tensor, hcom: str, operator: str) -> Tensor:
    """Return the sum over the ranks of the group whose communicator is called `hcom`; alone, the values.

    Raises RuntimeError for a name that no process group of this process has.
    """
    dist: Any = torch.distributed
    if values.is_meta or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return values
    for group in dist.distributed_c10d._world.pg_map:
        backend = group._get_backend(torch.device("npu"))
        name_of = getattr(backend, "get_hccl_comm_name", None)
        if name_of is not None and name_of(dist.get_rank()) == hcom:
            return backend.sum_on_host(values)  # type: ignore[no-any-return]
    expect(False, operator, "hcom must be the communicator of a process group", repr(hcom))
    raise AssertionError
