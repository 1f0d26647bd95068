"""Gradients of a function of CPU tensors, for the vendor's backward operators that programs call by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor

_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.ADInplaceOrView
)


def pullback(
    function: Callable[..., Any], inputs: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the gradients of `inputs` when the results of `function(*inputs)` have these gradients.

    Kernels run below autograd, so it is turned on here for the CPU. None stands for a result without a
    gradient. An input that no result depends on gets zeros.
    """
    excluded, included = torch._C._dispatch_tls_local_exclude_set(), torch._C._dispatch_tls_local_include_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded - _AUTOGRAD), torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        result = function(*leaves)
        results = result if isinstance(result, (list, tuple)) else (result,)
        flowing = [
            (value, seed)
            for value, seed in zip(results, gradients, strict=True)
            if seed is not None and value.requires_grad
        ]
        if not flowing:
            return [torch.zeros_like(tensor) for tensor in inputs]
        values, seeds = zip(*flowing, strict=True)
        found = torch.autograd.grad(values, leaves, seeds, allow_unused=True, materialize_grads=True)
    return [gradient.contiguous() for gradient in found]


def like(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Return tensors shaped like these, as a shape function of their gradients; None gives an empty one."""
    return tuple(torch.empty(0) if tensor is None else torch.empty_like(tensor) for tensor in tensors)
