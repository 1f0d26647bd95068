"""`npu_grouped_matmul`: a matrix product for each group of rows or columns.

Source: the adapter's page of npu_grouped_matmul. Groups along the rows of x (group_type 0) are the experts
of a mixture; groups along the shared dimension (group_type 2) give their weights' gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.custom.quant_matmul import summed
from jumar.npu.ops.helpers import low_bits
from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse, refuse_given, require, require_dtype
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
Tensors = Sequence[Tensor]
_ROWS, _SHARED = 0, 2
_BY_SIZE = 1


def shapes(x: Tensors, weight: Tensors, **given: Any) -> list[Tensor]:
    """Shape function: sizes of groups in a tensor are not known, so only one result for all has a shape."""
    operator = "npu_grouped_matmul"
    kind = _ROWS if given["group_type"] is None else given["group_type"]
    dtype = given["output_dtype"]
    own = x[0].dtype
    target = low_bits.dtype_of(dtype, torch.int8, operator) if own == torch.int8 else own
    num_columns = weight[0].shape[-1]
    if (given["split_item"] or 0) in (2, 3):
        rows = sum(item.shape[0] for item in x)
        groups = given["group_list"]
        num = len(weight) if groups is None else len(groups)
        shape = (num, x[0].shape[0], num_columns) if kind == _SHARED else (rows, num_columns)
        return [torch.empty(shape, dtype=target, device=x[0].device)]
    expect(len(x) > 1 or len(weight) == 1, operator, "groups of one x need split_item 2 or 3 to have known shapes", 0)
    pairs = zip(x, weight if len(weight) > 1 else list(weight) * len(x), strict=True)
    return [torch.empty((*left.shape[:-1], right.shape[-1]), dtype=target, device=left.device) for left, right in pairs]


@implements("npu_grouped_matmul", "npu_grouped_matmul.List", differentiable=False, meta=shapes)
def grouped_matmul(
    x: Tensors,
    weight: Tensors,
    *,
    bias: Tensors | None,
    scale: Tensors | None,
    per_token_scale: Tensors | None,
    group_list: Tensor | Sequence[int] | None,
    split_item: int | None,
    group_type: int | None,
    group_list_type: int | None,
    act_type: int | None,
    output_dtype: int | torch.dtype | None,
    tuning_config: Any = None,
    **others: Any,
) -> list[Tensor]:
    """Multiply each group's rows by its weight.

    `x` and `weight` are lists; one x of all groups is cut by `group_list`, which holds ends or, with
    `group_list_type` 1, sizes; one weight (E, K, N) holds all groups'. `split_item` 2 and 3 give one result
    for all groups, 0 and 1 one each. int8 operands take `scale`, and `per_token_scale` (M,) where given.
    """
    operator = "npu_grouped_matmul"
    del tuning_config
    refuse_given(
        operator,
        "leave it out, or dequantise first",
        **{k: v for k, v in others.items() if v is not None and (not isinstance(v, (list, tuple)) or v)},
    )
    if act_type:
        refuse(operator, "an activation", "apply it to the result")
    kind = _kind(group_list, group_type)
    xs, ends = _cut(x, group_list, group_list_type or 0, kind)
    num = len(xs)
    weights = _weights(weight, kind, ends, num)
    expect(len(weights) == num, operator, f"there must be a weight for each of the {num} groups", len(weights))
    results = []
    used = 0
    for i, (left, right) in enumerate(zip(xs, weights, strict=True)):
        tokens = _rows_of(per_token_scale, i, used, left.shape[0])
        results.append(_product(operator, left, right, _item(bias, i), _item(scale, i), tokens, output_dtype))
        used += left.shape[0]
    return _collected(results, x, kind, split_item or 0)


def _kind(group_list: Tensor | Sequence[int] | None, group_type: int | None) -> int:
    """Return along what the groups lie. Raises RuntimeError in op-plugin's words (`GroupedMatmulKernelNpuOpApi.cpp`).

    The overload whose `group_list` is a list of numbers takes none for the rows.
    """
    is_list = isinstance(group_list, (list, tuple))
    require(is_list or group_type is not None, "Requires manual passing group_type, current is None.")
    kind = _ROWS if group_type is None else group_type
    require(kind in (-1, _ROWS, _SHARED), f"The group type must be -1, 0 or 2, but now is [{kind}].")
    return kind


def _ends(group_list: Tensor | Sequence[int] | None, list_type: int) -> list[int] | None:
    if group_list is None:
        return None
    values = group_list.tolist() if isinstance(group_list, Tensor) else list(group_list)
    if list_type != _BY_SIZE:
        return values
    total, found = 0, []
    for size in values:
        total += size
        found.append(total)
    return found


def _cut(
    x: Tensors, group_list: Tensor | Sequence[int] | None, list_type: int, kind: int
) -> tuple[list[Tensor], list[int] | None]:
    """Return x of each group, and where the groups of a single x end."""
    expect(list_type in (0, 1), "npu_grouped_matmul", "group_list_type must be 0 or 1", list_type)
    ends = _ends(group_list, list_type)
    if len(x) > 1 or ends is None or kind == -1:
        return list(x), None
    starts = [0, *ends[:-1]]
    if kind == _SHARED:
        return [x[0][:, start:end] for start, end in zip(starts, ends, strict=True)], ends
    return [x[0][start:end] for start, end in zip(starts, ends, strict=True)], ends


def _weights(weight: Tensors, kind: int, ends: list[int] | None, num: int) -> list[Tensor]:
    if len(weight) > 1 or (num == 1 and weight[0].dim() == 2):
        return list(weight)
    if weight[0].dim() == 3:
        return list(weight[0])
    if kind == _SHARED and ends is not None:
        return [weight[0][start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return list(weight)


def _item(values: Tensors | None, i: int) -> Tensor | None:
    """Return the i-th group's parameter: of a list of them, or of one tensor with a row for each."""
    if not values:
        return None
    return values[i] if len(values) > 1 or values[0].dim() == 1 else values[0][i]


def _rows_of(values: Tensors | None, i: int, start: int, num: int) -> Tensor | None:
    if not values:
        return None
    return values[i] if len(values) > 1 else values[0][start : start + num]


def _product(
    operator: str,
    left: Tensor,
    right: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    tokens: Tensor | None,
    output_dtype: int | torch.dtype | None,
) -> Tensor:
    if left.dtype == torch.int8:
        require_dtype(operator, (torch.int8,), weight=right)
        expect(scale is not None, operator, "int8 operands need scale", "None")
        assert scale is not None
        target = low_bits.dtype_of(output_dtype, torch.int8, operator)
        sums = summed(left, right)
        values = (sums if bias is None else sums + bias).float() * low_bits.scale_of(scale)
        if tokens is not None:
            values = values * tokens.float().reshape(-1, 1)
        return low_bits.to_int8(values) if target == torch.int8 else values.to(target)
    require_dtype(operator, FLOATING, x=left, weight=right)
    expect(scale is None and tokens is None, operator, "scales need int8 operands", str(left.dtype))
    values = left.float() @ right.float()
    return (values if bias is None else values + bias.float()).to(left.dtype)


def _collected(results: list[Tensor], x: Tensors, kind: int, split_item: int) -> list[Tensor]:
    if split_item in (0, 1):
        return results
    if kind == _SHARED:
        return [torch.stack(results)]
    whole = torch.cat(results)
    missing = sum(item.shape[0] for item in x) - whole.shape[0]
    if missing > 0:
        # NOTE: rows behind the last group are not computed; their memory holds anything on the device.
        whole = torch.cat([whole, whole.new_zeros(missing, whole.shape[1])])
    return [whole]


@implements("npu_grouped_matmul_add", differentiable=False)
def grouped_matmul_add(
    y: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    *,
    transpose_x: bool,
    transpose_weight: bool,
    group_type: int,
    group_list_type: int | None,
) -> Tensor:
    """`y` (E * M, N) in float32 plus, for each group of rows, `x_group^T @ weight_group`: gradients of experts.

    x is (K, M), weight (K, N), their rows cut by `group_list`.
    """
    operator = "npu_grouped_matmul_add"
    if not transpose_x or transpose_weight or group_type != _SHARED:
        refuse(
            operator, "other operands than x transposed, in groups of rows", "leave these arguments at their defaults"
        )
    if x.is_meta:
        return y.new_empty(y.shape)
    ends = _ends(group_list, group_list_type or 0) or []
    pairs = zip([0, *ends[:-1]], ends, strict=True)
    products = [x[start:end].float().t() @ weight[start:end].float() for start, end in pairs]
    return (y + torch.stack(products).reshape(y.shape)).to(y.dtype)
