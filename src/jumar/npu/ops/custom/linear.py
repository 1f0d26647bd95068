"""Matrix products: `npu_linear`, `npu_bmmV2`, the LoRA product `npu_batch_gather_matmul`, and their backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ weight.T + bias`; x (m, k), weight (n, k), bias (n,)."""
    expect(x.dim() >= 2, "npu_linear", "input must have at least 2 dimensions", f"{x.dim()}")
    expect(weight.dim() >= 2, "npu_linear", "weight must have at least 2 dimensions", f"{weight.dim()}")
    return torch.nn.functional.linear(x, weight, bias)


@implements("npu_linear_backward", differentiable=False)
def linear_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the input and the weight."""
    rows = grad.reshape(-1, grad.shape[-1])
    return grad @ weight, rows.t() @ x.reshape(-1, x.shape[-1])


@derivative("npu_linear")
def _linear_gradients(step: Step) -> Mapping[str, Any]:
    (grad,) = step.gradients
    assert grad is not None, "a node whose only result has no gradient is not run"
    arguments = step.arguments
    by_input, by_weight = torch.ops.npu.npu_linear_backward(grad, arguments["input"], arguments["weight"])
    found = {"input": by_input, "weight": by_weight}
    if "bias" in step.needs:
        found["bias"] = grad.reshape(-1, grad.shape[-1]).sum(0)
    return found


@implements("npu_bmmV2")
def bmm_v2(x: Tensor, other: Tensor, output_sizes: Sequence[int]) -> Tensor:
    """`matmul` with broadcast batches; with `output_sizes`, batch dimensions of size 1 there are summed."""
    expect(torch.int8 not in (x.dtype, other.dtype), "npu_bmmV2", "no factor may be int8", "int8")
    product = torch.matmul(x, other)
    if x.dim() == other.dim() == 1:
        return product.reshape(1, 1)
    if not output_sizes:
        return product
    return _summed_to(product, tuple(output_sizes))


def _summed_to(product: Tensor, size: tuple[int, ...]) -> Tensor:
    """Sum the dimensions that `size` does not have, or has as 1, as the gradient of a broadcast is."""
    full = (1,) * (product.dim() - len(size)) + size
    dims = [i for i, (got, wanted) in enumerate(zip(product.shape, full, strict=True)) if got != wanted == 1]
    if dims:
        product = product.sum(dims, keepdim=True)
    return product.reshape(size)


def _with_vectors_as_matrices(grad: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Give the gradient of a product with a vector the dimension that the product dropped."""
    if first.dim() == second.dim() == 1:
        return grad
    if first.dim() == 1:
        return grad.unsqueeze(-2)
    return grad.unsqueeze(-1) if second.dim() == 1 else grad


@implements("npu_bmm_v2_mat1_backward", differentiable=False)
def bmm_v2_first(grad: Tensor, first: Tensor, second: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of the first factor: `grad @ second.T`, summed to `size`."""
    full = _with_vectors_as_matrices(grad, first, second)
    other = second.unsqueeze(0) if second.dim() == 1 else second.transpose(-2, -1)
    return _summed_to(torch.matmul(full, other), tuple(size))


@implements("npu_bmm_v2_mat2_backward", differentiable=False)
def bmm_v2_second(grad: Tensor, first: Tensor, second: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of the second factor: `first.T @ grad`, summed to `size`."""
    full = _with_vectors_as_matrices(grad, first, second)
    other = first.unsqueeze(-1) if first.dim() == 1 else first.transpose(-2, -1)
    product = torch.matmul(other, full)
    if second.dim() == 1:
        return _summed_to(product, (*size, 1)).reshape(size)
    return _summed_to(product, tuple(size))


@derivative("npu_bmmV2")
def _bmm_v2_gradients(step: Step) -> Mapping[str, Any]:
    first, second = step.arguments["self"], step.arguments["mat2"]
    found = {}
    if "self" in step.needs:
        found["self"] = torch.ops.npu.npu_bmm_v2_mat1_backward(step.gradients[0], first, second, first.shape)
    if "mat2" in step.needs:
        found["mat2"] = torch.ops.npu.npu_bmm_v2_mat2_backward(step.gradients[0], first, second, second.shape)
    return found


@implements("npu_batch_gather_matmul", differentiable=False)
def batch_gather_matmul(
    y: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None,
    layer_idx: int,
    scale: float,
    y_offset: int,
    y_slice_size: int,
) -> Tensor:
    """Add a LoRA product to a slice of y: `scale * x @ A[i, layer].T @ B[i, layer].T` with each row's own adapter i.

    y (n, h2), x (n, h1), weight_a (adapters, layers, r, h1), weight_b (adapters, layers, h, r), indices (n,).
    A row whose index is the number of adapters has none: nothing is added to it.
    """
    name = "npu_batch_gather_matmul"
    expect(y.dim() == 2 and x.dim() == 2, name, "y and x must have 2 dimensions", f"{y.dim()} and {x.dim()}")
    expect(weight_b.dim() == 4, name, "weight_b must have 4 dimensions", f"{weight_b.dim()}")
    width = y.shape[1] if y_slice_size == -1 else y_slice_size
    found = y.clone()
    hidden = x if weight_a is None else _adapted(x, weight_a, indices, layer_idx)
    found[:, y_offset : y_offset + width] += _adapted(hidden, weight_b, indices, layer_idx) * scale
    return found


def _adapted(rows: Tensor, weight: Tensor, indices: Tensor, layer: int) -> Tensor:
    """Return each row times the transposed matrix of its adapter."""
    none = weight.new_zeros(1, *weight.shape[1:])
    chosen = torch.cat([weight, none])[indices.long(), layer]
    return torch.bmm(chosen, rows.unsqueeze(-1)).squeeze(-1)
