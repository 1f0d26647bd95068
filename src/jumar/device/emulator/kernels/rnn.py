"""Recurrent networks in exact numerics: the CPU's own composition, gradients included.

PyTorch composes LSTM, GRU and RNN in another way on a CPU than elsewhere: it multiplies the whole sequence
with the input weights at once, has oneDNN run an LSTM, and has no fused cells. Results then differ in the last
bits, and so do gradients, which are summed in another order. Where the CPU's bits are wanted, the tensors are
relabelled for the length of the call and its backward. Strict numerics keep PyTorch's way for accelerators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.arguments import alias, wrap
from jumar.device.emulator.memory import index_of
from jumar.device.emulator.plans import CPU_KEYS
from jumar.device.emulator.state import STATE

Tensor = torch.Tensor

_NAMES = tuple(
    f"aten::{name}"
    for name in (
        *(f"{kind}.{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")),
        *(f"{kind}_cell" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    )
)


class _ToCpu(torch.autograd.Function):
    """The CPU tensor over an npu tensor's memory; the gradient comes back as an npu tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.index = index_of(tensor)
        return alias(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _to_npu(gradient, ctx.index)


class _ToNpu(torch.autograd.Function):
    """The npu tensor over a CPU tensor's memory; the gradient goes back as a CPU tensor."""

    @staticmethod
    def forward(_ctx: Any, tensor: Tensor, index: int) -> Tensor:
        return wrap(tensor.detach(), index)  # type: ignore[no-any-return]

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _to_cpu(gradient), None


def _to_cpu(tensor: Tensor) -> Tensor:
    relabelled: Tensor = _ToCpu.apply(tensor)  # type: ignore[no-untyped-call]
    return relabelled


def _to_npu(tensor: Tensor, index: int) -> Tensor:
    relabelled: Tensor = _ToNpu.apply(tensor, index)  # type: ignore[no-untyped-call]
    return relabelled


def _relabel(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value if value.is_cpu else _to_cpu(value)
    return [_relabel(item) for item in value] if isinstance(value, (list, tuple)) else value


def _results(value: Any, index: int) -> Any:
    if isinstance(value, Tensor):
        return _to_npu(value, index)
    return tuple(_results(item, index) for item in value)


def _kernel(name: str) -> Callable[..., Any]:
    # What is registered for the CPU is the composition, which serves any device.
    composed = torch.library.get_kernel(name, "CPU").call_boxed
    base, _, overload = name.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")

    def call(*args: Any, **kwargs: Any) -> Any:
        if STATE.settings.numerics != "exact" or torch.is_autocast_enabled("npu"):
            return composed(CPU_KEYS, *args, **kwargs)
        keywords = {key: _relabel(value) for key, value in kwargs.items()}
        return _results(operator(*[_relabel(value) for value in args], **keywords), index_of(args[0]))

    return call


COMPOSITES: dict[str, Callable[..., Any]] = {name: _kernel(name) for name in _NAMES}
"""Kernels for the autograd key: they call differentiable operators."""
