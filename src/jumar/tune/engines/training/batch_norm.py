"""Batch normalisation in training by a kernel of our own, for images with their channels last; ReLU computed with it.

PyTorch's kernel for this layout adds up each channel's values one after the other, in float: over the pixels of a
batch its statistics lose two digits against those of the usual layout. This one keeps them and reads memory once less.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from jumar.base.native import CompilerError, compiled
from jumar.tune.model.errors import TuneError

_SOURCE = Path(__file__).parent / "native" / "batch_norm.cpp"
_FLAGS = ("-fno-trapping-math", "-mprefer-vector-width=512")
_IMAGE = 4


def batch_norm(
    x: torch.Tensor, running_mean: torch.Tensor | None, running_var: torch.Tensor | None, weight: torch.Tensor,
    bias: torch.Tensor, momentum: float, eps: float, relu: bool,
) -> torch.Tensor:  # fmt: skip
    """Return `functional.batch_norm(…, training=True)` of images (N, C, H, W), through `relu` where that is set.

    `running_mean` and `running_var` are brought up to date. What the kernel does not take is computed by PyTorch.
    """
    fitting = x.dtype is weight.dtype is bias.dtype is torch.float32 and x.dim() == _IMAGE and x.numel() > x.shape[1]
    if not fitting or not x.is_contiguous(memory_format=torch.channels_last):
        made = functional.batch_norm(x, running_mean, running_var, weight, bias, True, momentum, eps)
        return functional.relu(made) if relu else made
    apply: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = _Normalised.apply
    out, mean, variance = apply(x, weight, bias, eps, relu)
    if running_mean is not None and running_var is not None:
        count = x.numel() // x.shape[1]
        with torch.no_grad():
            running_mean.lerp_(mean, momentum)
            running_var.lerp_(variance * (count / (count - 1)), momentum)
    return out


def check_library() -> None:
    """Compile the kernel, or find it compiled. Raises TuneError where that is impossible."""
    _library()


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, relu: bool) -> Any:
        channels = x.shape[1]
        weight, bias = weight.contiguous(), bias.contiguous()
        out = torch.empty_like(x)
        mean, variance, inverse = x.new_empty(3, channels).unbind(0)  # whatever PyTorch's default dtype is
        _library().jumar_batch_norm(
            *_addresses(x, weight, bias, out, mean, variance, inverse), x.numel() // channels, channels, eps,
            int(relu), torch.get_num_threads(),
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        ctx.eps, ctx.relu = eps, relu
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        if torch.is_grad_enabled():  # create_graph=True
            return _differentiable_backward(ctx, gradient)
        x, weight, bias, mean, inverse = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        to_x, to_weight, to_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        _library().jumar_batch_norm_backward(
            *_addresses(gradient, x, weight, bias, mean, inverse, to_x, to_weight, to_bias),
            x.numel() // x.shape[1], x.shape[1], int(ctx.relu), torch.get_num_threads(),
        )  # fmt: skip
        return to_x, to_weight, to_bias, None, None


def _differentiable_backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients by PyTorch's own operators, which can be differentiated again."""
    x, weight, bias, _, _ = ctx.saved_tensors
    made = functional.batch_norm(x, None, None, weight, bias, True, 0.0, ctx.eps)
    made = functional.relu(made) if ctx.relu else made
    wanted = [one for one, is_needed in zip((x, weight, bias), ctx.needs_input_grad, strict=False) if is_needed]
    found = iter(torch.autograd.grad(made, wanted, gradient, create_graph=True))
    return tuple(next(found) if is_needed else None for is_needed in ctx.needs_input_grad)


def _addresses(*tensors: torch.Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(str(compiled(_SOURCE, flags=_FLAGS)))
    except (CompilerError, OSError) as error:
        raise TuneError(f"the kernel for batch normalisation cannot be built: {error}") from error
    pointer, whole, short = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    library.jumar_batch_norm.argtypes = [*[pointer] * 7, whole, whole, ctypes.c_double, short, short]
    library.jumar_batch_norm_backward.argtypes = [*[pointer] * 9, whole, whole, short, short]
    library.jumar_batch_norm.restype = library.jumar_batch_norm_backward.restype = None
    return library
