"""Recurrent networks: the fused LSTM and GRU cells that PyTorch calls on accelerators, and the CPU's own composition.

The CPU has no kernels of the names of those cells.

Each call computes one time step for a batch. The workspace is what the backward needs: the four gates
of an LSTM (batch, 4 * hidden); the reset, update and new gate, the previous state and the hidden part
of the new gate of a GRU (batch, 5 * hidden). Formulas: the documentation of torch.nn.LSTM and torch.nn.GRU.

PyTorch composes LSTM, GRU and RNN in another way on a CPU than elsewhere: it multiplies the whole sequence
with the input weights at once, has oneDNN run an LSTM, and has no fused cells. Results then differ in the last
bits, and so do gradients, which are summed in another order. In exact numerics, where the CPU's bits are wanted,
the tensors are relabelled for the length of the call and its backward. Strict numerics keep PyTorch's way for
accelerators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of
from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch.arguments import alias, composed, wrap
from jumar.npu.memory.memory import index_of
from jumar.npu.ops.kernels.packed import without_padding

Tensor = torch.Tensor
Maybe = Tensor | None


def _plus(gates: Tensor, bias: Maybe) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`_thnn_fused_lstm_cell`: new hidden state, new cell state, workspace."""
    i, f, g, o = (_plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cx + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Maybe, grad_cy: Maybe, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Maybe, Maybe, Maybe]:
    """`_thnn_fused_lstm_cell_backward_impl`: gradients of the gates, of the cell state and of a bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    by_cell = torch.zeros_like(cy, device="cpu") if grad_cy is None else grad_cy
    by_o = torch.zeros_like(o, device="cpu")
    if grad_hy is not None:
        by_cell = by_cell + grad_hy * o * (1 - tanh * tanh)
        by_o = grad_hy * tanh * o * (1 - o)
    by_gates = torch.cat([by_cell * g * i * (1 - i), by_cell * cx * f * (1 - f), by_cell * i * (1 - g * g), by_o], 1)
    return by_gates, by_cell * f, by_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor]:
    """`_thnn_fused_gru_cell`: new hidden state, workspace."""
    reset_x, update_x, new_x = _plus(input_gates, input_bias).chunk(3, 1)
    reset_h, update_h, new_h = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (hx - new) * update + new, torch.cat([reset, update, new, hx, new_h], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Maybe, Maybe]:
    """`_thnn_fused_gru_cell_backward`: gradients of both gates, of the state and of both biases."""
    reset, update, new, state, new_h = workspace.chunk(5, 1)
    by_new = grad_hy * (1 - update) * (1 - new * new)
    by_update = grad_hy * (state - new) * update * (1 - update)
    by_reset = by_new * new_h * reset * (1 - reset)
    by_x = torch.cat([by_reset, by_update, by_new], 1)
    by_hidden = torch.cat([by_reset, by_update, by_new * reset], 1)
    biases = (by_x.sum(0), by_hidden.sum(0)) if has_bias else (None, None)
    return by_x, by_hidden, grad_hy * update, *biases


def _rounded_once(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a cell that calculates halves in float32, and gives what it gives in the dtype of its first tensor."""

    def cell(*args: Any) -> Any:
        dtype = next(value.dtype for value in args if isinstance(value, Tensor))
        if all(value.dtype in (torch.float32, torch.float64) for value in args if isinstance(value, Tensor)):
            return compute(*args)
        wide = [value.float() if isinstance(value, Tensor) else value for value in args]
        return tuple(None if item is None else item.to(dtype) for item in compute(*wide))

    return composed(cell)


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": _rounded_once(lstm_cell),
    "aten::_thnn_fused_lstm_cell_backward_impl": _rounded_once(lstm_cell_backward),
    "aten::_thnn_fused_gru_cell": _rounded_once(gru_cell),
    "aten::_thnn_fused_gru_cell_backward": _rounded_once(gru_cell_backward),
}


_FORMS = (".input", ".data", "_cell")
_NAMES = tuple(f"aten::{kind}{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in _FORMS)


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
    composed = get_kernel(name, "CPU").call_boxed
    operator = overload_of(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if STATE.settings.numerics != "exact" or torch.is_autocast_enabled("npu"):
            return composed(CPU_KEYS, *args, **kwargs)
        keywords = {key: _relabel(value) for key, value in kwargs.items()}
        return _results(operator(*[_relabel(value) for value in args], **keywords), index_of(args[0]))

    return call


COMPOSITES: dict[str, Callable[..., Any]] = {
    name: without_padding(_kernel(name)) if name.endswith(".data") else _kernel(name) for name in _NAMES
}
"""Kernels for the autograd key: they call differentiable operators."""
