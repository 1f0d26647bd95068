"""Shapes, slices, fills and casts by the vendor's names. Every result has memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor
Sizes = Sequence[int]


@implements("npu_transpose", "npu_transpose_trans_contiguous.out", differentiable=False)
def transpose(x: Tensor, perm: Sizes, _require_contiguous: bool) -> Tensor:
    """The dimensions in the order `perm`, contiguous."""
    return x.permute(tuple(perm)).contiguous()


@implements("npu_broadcast", differentiable=False)
def broadcast(x: Tensor, size: Sizes) -> Tensor:
    """As `torch.broadcast_to`, contiguous."""
    return x.expand(tuple(size)).contiguous()


@implements("npu_reshape", differentiable=False)
def reshape(x: Tensor, shape: Sizes, can_refresh: bool) -> Tensor:
    """A copy in another shape."""
    if can_refresh:
        refuse("npu_reshape", "can_refresh=True", "it changes a descriptor that only the device has; leave it False")
    return x.reshape(tuple(shape)).clone()


@implements("npu_confusion_transpose")
def confusion_transpose(x: Tensor, perm: Sizes, shape: Sizes, transpose_first: bool) -> Tensor:
    """A transposition to `perm` then a reshape to `shape`, or the reshape first."""
    if transpose_first:
        return x.permute(tuple(perm)).reshape(tuple(shape))
    rule = "perm must name each dimension of shape once"
    expect(sorted(perm) == list(range(len(shape))), "npu_confusion_transpose", rule, f"perm {list(perm)}")
    return x.reshape(tuple(shape)).permute(tuple(perm)).contiguous()


@implements("npu_confusion_transpose_backward", differentiable=False)
def confusion_transpose_backward(grad: Tensor, perm: Sizes, shape: Sizes, transpose_first: bool) -> Tensor:
    """The gradient, of the input's shape `shape`. `transpose_first` is of this step: not the forward's."""
    back = sorted(range(len(perm)), key=lambda i: perm[i])
    if transpose_first:
        return grad.permute(back).reshape(tuple(shape))
    return grad.reshape([shape[i] for i in perm]).permute(back).contiguous()


@derivative("npu_confusion_transpose")
def _confusion_transpose_gradient(step: Step) -> dict[str, Tensor]:
    x, perm, _, first = step.arguments.values()
    operator = torch.ops.npu.npu_confusion_transpose_backward
    return {"self": operator(step.gradients[0], perm, x.shape, not first)}


@implements("npu_slice", differentiable=False)
def slice_(x: Tensor, offsets: Sizes, size: Sizes) -> Tensor:
    """The block of `size` elements from `offsets`."""
    rule = f"offsets and size must be {x.dim()} numbers"
    expect(len(offsets) == len(size) == x.dim(), "npu_slice", rule, f"{list(offsets)} and {list(size)}")
    for dim, (first, length) in enumerate(zip(offsets, size, strict=True)):
        x = x.narrow(dim, first, length)
    return x.clone()


@implements("npu_pad", differentiable=False)
def pad(x: Tensor, paddings: Sizes) -> Tensor:
    """Zeros before and after each dimension, the first dimension first; what is not given is 0."""
    expect(len(paddings) <= 2 * x.dim(), "npu_pad", f"there must be at most {2 * x.dim()} paddings", len(paddings))
    full = [*paddings, *[0] * (2 * x.dim() - len(paddings))]
    pairs = [full[i : i + 2] for i in range(0, len(full), 2)]
    return torch.nn.functional.pad(x, [number for pair in reversed(pairs) for number in pair])


@implements("npu_indexing", "npu_indexing_trans_contiguous.out", differentiable=False)
def indexing(
    x: Tensor,
    begin: Sizes,
    end: Sizes,
    strides: Sizes,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Tensor:
    """Every `strides`-th element from `begin` before `end`, in every dimension."""
    name = "npu_indexing"
    if begin_mask or end_mask or ellipsis_mask or new_axis_mask or shrink_axis_mask:
        refuse(name, "masks", "the adapter gives results a shape that does not know of them; index the tensor instead")
    ok = len(begin) == len(end) == len(strides) == x.dim()
    expect(
        ok, name, f"begin, end and strides must be {x.dim()} numbers", f"{list(begin)}, {list(end)}, {list(strides)}"
    )
    for dim, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        fits = 0 <= first <= last <= x.shape[dim] and step > 0
        rule = f"dimension {dim} must have 0 <= begin <= end <= {x.shape[dim]} and a positive stride"
        expect(fits, name, rule, f"{first}, {last}, {step}")
        x = x.narrow(dim, first, last - first)
        x = x[(slice(None),) * dim + (slice(None, None, step),)]
    return x.clone()


@implements("npu_stride_copy", differentiable=False)
def stride_copy(x: Tensor, shape: Sizes, stride: Sizes, storage_offset: float) -> Tensor:
    """A contiguous copy of the strided view of x."""
    if storage_offset:
        refuse("npu_stride_copy", "a storage offset", "the vendor's own examples do not agree on it; slice first")
    return x.contiguous().as_strided(tuple(shape), tuple(stride), 0).clone(memory_format=torch.contiguous_format)


@implements("npu_one_hot", differentiable=False)
def one_hot(x: Tensor, axis: int, depth: int, on_value: float, off_value: float) -> Tensor:
    """float32 `on_value` at the place each element names in a new last dimension of `depth`, `off_value` elsewhere.

    A number outside of the depth has no place. The vendor calls `axis` num_classes.
    """
    if axis not in (-1, x.dim()):
        refuse(
            "npu_one_hot", f"num_classes={axis}, an axis other than the last", "its result's shape is not documented"
        )
    places = torch.arange(depth, device=x.device)
    found = torch.full((*x.shape, depth), float(off_value), device=x.device)
    return found.masked_fill(x.unsqueeze(-1) == places, float(on_value))


@implements("reverse", differentiable=False)
def reverse(x: Tensor, axis: Sizes) -> Tensor:
    """The elements in reverse order along some dimensions."""
    return x.flip(tuple(axis))


@implements("one_")
def fill_with_ones(x: Tensor) -> Tensor:
    """Fill x with ones."""
    return x.fill_(1)


@implements("npu_view_copy")
def view_copy(x: Tensor, other: Tensor, _non_blocking: bool) -> Tensor:
    """Copy into x, which may be a view."""
    return x.copy_(other)


_CODES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
    6: torch.float32, 7: torch.float64, 8: torch.complex32, 9: torch.complex64, 10: torch.complex128, 11: torch.bool,
    15: torch.bfloat16, 23: torch.float8_e5m2, 24: torch.float8_e4m3fn,
}  # fmt: skip
"""dtypes by their number in c10::ScalarType, which is what schemas with `int dtype` get."""


def _dtype(value: Any) -> torch.dtype:
    if isinstance(value, torch.dtype):
        return value
    if value not in _CODES:
        refuse("npu_dtype_cast", f"dtype number {value}", "the emulated NPU has no such type; give a torch.dtype")
    return _CODES[value]


def _no_source_type(given: int | None) -> None:
    if given is not None:
        refuse("npu_dtype_cast", "input_dtype", "it reads bytes as a type that PyTorch has not; leave it out")


@implements("npu_dtype_cast")
def dtype_cast(x: Tensor, dtype: int, input_dtype: int | None) -> Tensor:
    """A copy in another dtype."""
    _no_source_type(input_dtype)
    return x.to(_dtype(dtype), copy=True)


@implements("_npu_dtype_cast")
def dtype_cast_(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy in another dtype."""
    return x.to(_dtype(dtype), copy=True)


@implements("npu_dtype_cast_backward", differentiable=False)
def dtype_cast_backward(grad: Tensor, dtype: torch.dtype, _grad_dtype: int | None, input_dtype: int | None) -> Tensor:
    """The gradient in the input's dtype."""
    _no_source_type(input_dtype)
    return grad.to(_dtype(dtype), copy=True)


@implements("_npu_dtype_cast_backward", differentiable=False)
def plain_dtype_cast_backward(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient in the input's dtype."""
    return grad.to(_dtype(dtype), copy=True)


@derivative("npu_dtype_cast")
def _cast_gradient(step: Step) -> dict[str, Tensor]:
    return {"self": torch.ops.npu.npu_dtype_cast_backward(step.gradients[0], step.arguments["self"].dtype)}


@derivative("_npu_dtype_cast")
def _plain_cast_gradient(step: Step) -> dict[str, Tensor]:
    return {"self": torch.ops.npu._npu_dtype_cast_backward(step.gradients[0], step.arguments["self"].dtype)}


@implements("npu_dtype_cast_")
def dtype_cast_into(x: Tensor, source: Tensor) -> Tensor:
    """Cast `source` into x. When both have the same dtype nothing is written, as in the vendor's adapter."""
    return x if x.dtype == source.dtype else x.copy_(source)
