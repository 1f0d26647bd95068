"""The fused LSTM and GRU cells that PyTorch calls on accelerators; the CPU has no kernels of that name.

Each call computes one time step for a batch. The workspace is what the backward needs: the four gates
of an LSTM (batch, 4 * hidden); the reset, update and new gate, the previous state and the hidden part
of the new gate of a GRU (batch, 5 * hidden). Formulas: the documentation of torch.nn.LSTM and torch.nn.GRU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.arguments import alias, wrap
from jumar.device.emulator.placement import check_together

Tensor = torch.Tensor
Maybe = Tensor | None


def _aliases(*tensors: Maybe) -> list[Any]:
    check_together(tensors)
    return [None if tensor is None else alias(tensor) for tensor in tensors]


def _plus(gates: Tensor, bias: Maybe) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`_thnn_fused_lstm_cell`: new hidden state, new cell state, workspace."""
    x, h, cell, bias_x, bias_h = _aliases(input_gates, hidden_gates, cx, input_bias, hidden_bias)
    i, f, g, o = (_plus(x, bias_x) + _plus(h, bias_h)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cell + i * g
    return wrap(o * new.tanh()), wrap(new), wrap(torch.cat([i, f, g, o], 1))


def lstm_cell_backward(
    grad_hy: Maybe, grad_cy: Maybe, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Maybe, Maybe, Maybe]:
    """`_thnn_fused_lstm_cell_backward_impl`: gradients of the gates, of the cell state and of a bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    by_h, by_c, old, new, saved = _aliases(grad_hy, grad_cy, cx, cy, workspace)
    i, f, g, o = saved.chunk(4, 1)
    tanh = new.tanh()
    by_cell = torch.zeros_like(new, device="cpu") if by_c is None else by_c
    by_o = torch.zeros_like(o, device="cpu")
    if by_h is not None:
        by_cell = by_cell + by_h * o * (1 - tanh * tanh)
        by_o = by_h * tanh * o * (1 - o)
    by_gates = torch.cat([by_cell * g * i * (1 - i), by_cell * old * f * (1 - f), by_cell * i * (1 - g * g), by_o], 1)
    return wrap(by_gates), wrap(by_cell * f), wrap(by_gates.sum(0)) if has_bias else None


def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor]:
    """`_thnn_fused_gru_cell`: new hidden state, workspace."""
    x, h, state, bias_x, bias_h = _aliases(input_gates, hidden_gates, hx, input_bias, hidden_bias)
    reset_x, update_x, new_x = _plus(x, bias_x).chunk(3, 1)
    reset_h, update_h, new_h = _plus(h, bias_h).chunk(3, 1)
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return wrap((state - new) * update + new), wrap(torch.cat([reset, update, new, state, new_h], 1))


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Maybe, Maybe]:
    """`_thnn_fused_gru_cell_backward`: gradients of both gates, of the state and of both biases."""
    by_h, saved = _aliases(grad_hy, workspace)
    reset, update, new, state, new_h = saved.chunk(5, 1)
    by_new = by_h * (1 - update) * (1 - new * new)
    by_update = by_h * (state - new) * update * (1 - update)
    by_reset = by_new * new_h * reset * (1 - reset)
    by_x = torch.cat([by_reset, by_update, by_new], 1)
    by_hidden = torch.cat([by_reset, by_update, by_new * reset], 1)
    biases = (wrap(by_x.sum(0)), wrap(by_hidden.sum(0))) if has_bias else (None, None)
    return wrap(by_x), wrap(by_hidden), wrap(by_h * update), *biases


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "aten::_thnn_fused_gru_cell": gru_cell,
    "aten::_thnn_fused_gru_cell_backward": gru_cell_backward,
}
