"""`native_group_norm` whose backward keeps the memory format in exact numerics, as on the CPU.

PyTorch's derivative (`derivatives.yaml`) hands `native_group_norm_backward` contiguous tensors on every accelerator,
and tensors in the input's own format on the CPU, whose kernel then sums in another order. An NPU gets what an
accelerator gets; `exact` numerics promise the CPU's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.state import STATE
from jumar.npu.ops.mechanism.derivatives import pytorchs_derivative

Tensor = torch.Tensor
_NAME = "aten::native_group_norm"
_pytorchs = pytorchs_derivative(_NAME)
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *sizes: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """`native_group_norm`: the result (N, C, *), and mean and 1 / sqrt(variance + eps), each (N, groups)."""
    if STATE.settings.numerics == "exact" and _is_channels_last(input):
        found: tuple[Tensor, Tensor, Tensor] = _InItsFormat.apply(input, weight, bias, *sizes)  # type: ignore[no-untyped-call]
        return found
    plain: tuple[Tensor, Tensor, Tensor] = _pytorchs(input, weight, bias, *sizes)
    return plain


def _is_channels_last(input: Tensor) -> bool:
    wanted = _FORMATS.get(input.dim())
    return wanted is not None and input.is_contiguous(memory_format=wanted) and not input.is_contiguous()


class _InItsFormat(torch.autograd.Function):
    """The operator with a backward that hands its kernel tensors in the input's format."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, *sizes: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            result, mean, rstd = torch.native_group_norm(input, weight, bias, *sizes)
        ctx.save_for_backward(input, weight, bias, mean, rstd)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        return result, mean, rstd

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        input, weight, bias, mean, rstd = ctx.saved_tensors
        rest = (None,) * len(ctx.sizes)
        if all(gradient is None for gradient in gradients):
            return None, None, None, *rest
        if torch.is_grad_enabled() or gradients[0] is None or gradients[1] is not None or gradients[2] is not None:
            return *_differentiable(ctx, input, weight, bias, gradients), *rest
        format = _FORMATS[input.dim()]
        mask = list(ctx.needs_input_grad[:3])
        num, channels, size, groups = ctx.sizes[:4]
        found = torch.ops.aten.native_group_norm_backward(
            gradients[0].contiguous(memory_format=format), input, mean, rstd, weight, num, channels, size, groups, mask
        )
        return *(item if wanted else None for item, wanted in zip(found, mask, strict=True)), *rest


def _differentiable(ctx: Any, input: Tensor, weight: Any, bias: Any, gradients: Any) -> list[Tensor | None]:
    """Return the gradients by PyTorch's own derivative, which can be derived again."""
    with torch.enable_grad():
        results = _pytorchs(input, weight, bias, *ctx.sizes)
    given = [(result, item) for result, item in zip(results, gradients, strict=True) if item is not None]
    wanted = [item for item, needed in zip((input, weight, bias), ctx.needs_input_grad, strict=False) if needed]
    found = iter(
        torch.autograd.grad(
            [result for result, _ in given],
            wanted,
            [item for _, item in given],
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
    )
    return [next(found) if needed else None for needed in ctx.needs_input_grad[:3]]


AUTOGRAD: dict[str, Callable[..., Any]] = {_NAME: native_group_norm}
"""Kernel for the autograd key alone; it calls the device's own."""
