"""Gathering and scattering by indices, and the backward of gathering and repeating."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_gather_sparse_index")
def gather_sparse_index(x: Tensor, index: Tensor) -> Tensor:
    """The rows of x that an index of any shape names: index.shape + x.shape[1:]."""
    return x[index.long()]


@implements("npu_gather_sparse_index_backward", differentiable=False)
def gather_sparse_index_backward(grad: Tensor, sizes: Sequence[int], index: Tensor) -> Tensor:
    """The gradient of x: each row the sum of those it was gathered to."""
    return index_add(grad.new_zeros(tuple(sizes)), index, grad, alpha=1)


@derivative("npu_gather_sparse_index")
def _gather_gradient(step: Step) -> dict[str, Tensor]:
    x, index = step.arguments.values()
    return {"input": torch.ops.npu.npu_gather_sparse_index_backward(step.gradients[0], x.shape, index)}


@implements("_npu_index_add", differentiable=False)
def index_add(x: Tensor, index: Tensor, source: Tensor, *, alpha: float) -> Tensor:
    """x with `alpha` times each row of the source added to the row that an index of any shape names."""
    rows = source.reshape(-1, *x.shape[1:])
    return x.index_add(0, index.long().flatten(), rows.to(x.dtype), alpha=alpha)


@implements("npu_gather_backward", differentiable=False)
def gather_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    """The gradient of the input of `torch.gather`, of shape `sizes`."""
    if sparse_grad:
        refuse("npu_gather_backward", "sparse_grad=True", "the emulated NPU has no sparse tensors")
    return grad.new_zeros(tuple(sizes)).scatter_add(dim, index, grad)


def _update(parts: Sequence[Tensor], indices: Tensor, updates: Tensor, axis: int, mask: Tensor | None) -> None:
    """Write updates[i] to parts[i] at indices[i] along an axis, which counts the dimensions of `updates`."""
    name = "scatter_update"
    if indices.dim() != 1:
        refuse(name, "indices of two dimensions", "what the second means is not documented; give one index a batch")
    axis %= updates.dim()
    expect(axis > 0, name, "axis must not be the first dimension", axis)
    length = updates.shape[axis]
    for i, (part, first) in enumerate(zip(parts, indices.tolist(), strict=True)):
        if mask is not None and not mask[i]:
            continue
        fits = first >= 0 and first + length <= part.shape[axis - 1]
        expect(fits, name, f"updates must fit within {part.shape[axis - 1]} elements", f"{first} + {length}")
        part.narrow(axis - 1, first, length).copy_(updates[i])


def _same(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


@implements("scatter_update", differentiable=False, meta=_same)
def scatter_update(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """x with updates[i] put at indices[i] along `axis` of x[i], for each element of the first dimension.

    x and updates differ along `axis` alone.
    """
    name = "scatter_update"
    shapes = f"{tuple(x.shape)} and {tuple(updates.shape)}"
    expect(x.dim() == updates.dim(), name, "data and updates must have as many dimensions", shapes)
    found = x.clone()
    _update(found.unbind(0), indices, updates, axis, None)
    return found


def _same_list(parts: Sequence[Tensor], *_: object) -> list[Tensor]:
    return [torch.empty_like(part) for part in parts]


@implements("npu_scatter_list", differentiable=False, meta=_same_list)
def scatter_list(
    parts: Sequence[Tensor], indices: Tensor, updates: Tensor, mask: Tensor | None, reduce: str, axis: int
) -> list[Tensor]:
    """`scatter_update` of a list of tensors, updates[i] into the i-th; where the mask (n,), uint8, is 0 nothing is."""
    found = [part.clone() for part in parts]
    scatter_list_into(found, indices, updates, mask, reduce, axis)
    return found


@implements("npu_scatter_list_")
def scatter_list_into(
    parts: Sequence[Tensor], indices: Tensor, updates: Tensor, mask: Tensor | None, reduce: str, axis: int
) -> None:
    """`npu_scatter_list` in place."""
    expect(reduce == "update", "npu_scatter_list", "reduce must be 'update'", repr(reduce))
    if not indices.is_meta:
        _update(parts, indices, updates, axis, mask)


def _repeated(grad: Tensor, x: Tensor, owners: Tensor, dim: int | None) -> Tensor:
    """Return the sums of the gradient's elements by the element of x that they repeat."""
    if dim is None:
        return x.new_zeros(x.numel()).to(grad.dtype).index_add(0, owners, grad.flatten()).reshape(x.shape)
    return x.new_zeros(x.shape).to(grad.dtype).index_add(dim, owners, grad)


@implements("repeat_interleave_backward_int", differentiable=False)
def repeat_interleave_backward(grad: Tensor, x: Tensor, repeats: int, dim: int | None) -> Tensor:
    """The gradient of the input of `torch.repeat_interleave`."""
    num = x.numel() if dim is None else x.shape[dim]
    return _repeated(grad, x, torch.arange(num, device=x.device).repeat_interleave(repeats), dim)


def _like_input(grad: Tensor, x: Tensor, *_: object) -> Tensor:
    return grad.new_empty(x.shape)


@implements("repeat_interleave_backward_tensor", differentiable=False, meta=_like_input)
def repeat_interleave_backward_tensor(grad: Tensor, x: Tensor, repeats: Tensor, dim: int | None) -> Tensor:
    """The same, where each element is repeated as often as `repeats` says."""
    num = x.numel() if dim is None else x.shape[dim]
    return _repeated(grad, x, torch.arange(num).repeat_interleave(repeats.expand(num)), dim)
