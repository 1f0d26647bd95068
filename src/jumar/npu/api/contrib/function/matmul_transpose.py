"""Product with a transposed second factor, as in attention."""

from __future__ import annotations

from typing import Any

import torch

Tensor = torch.Tensor

__all__ = ["matmul_transpose"]


class MatmulApply(torch.autograd.Function):
    """`tensor1 @ tensor2.transpose(-2, -1)`, whose backward are two `npu_bmmV2`.

    The factors need equal batch dimensions: gradients are not summed over broadcast ones.
    """

    @staticmethod
    def forward(ctx: Any, tensor1: Tensor, tensor2: Tensor) -> Tensor:
        """Return the product."""
        ctx.save_for_backward(tensor1, tensor2)
        return torch.matmul(tensor1, tensor2.transpose(-2, -1)).detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of both factors."""
        tensor1, tensor2 = ctx.saved_tensors
        operator = torch.ops.npu.npu_bmmV2
        return operator(grad, tensor2, []), operator(grad.transpose(-2, -1), tensor1, [])


matmul_transpose = MatmulApply.apply
