"""The fused LSTM and GRU cells that PyTorch calls on accelerators; the CPU has no kernels of that name.

Each call computes one time step for a batch. The workspace is what the backward needs: the four gates
of an LSTM (batch, 4 * hidden); the reset, update and new gate, the previous state and the hidden part
of the new gate of a GRU (batch, 5 * hidden). Formulas: the documentation of torch.nn.LSTM and torch.nn.GRU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.arguments import composed

Tensor = torch.Tensor
Maybe = Tensor | None


def _plus(gates: Tensor, bias: Maybe) -> Tensor:
    return gates if bias is None else gates + bias


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`_thnn_fused_lstm_cell`: new hidden state, new cell state, workspace."""
    x, h, cell, bias_x, bias_h = input_gates, hidden_gates, cx, input_bias, hidden_bias
    i, f, g, o = (_plus(x, bias_x) + _plus(h, bias_h)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cell + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Maybe, grad_cy: Maybe, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Maybe, Maybe, Maybe]:
    """`_thnn_fused_lstm_cell_backward_impl`: gradients of the gates, of the cell state and of a bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    by_h, by_c, old, new, saved = grad_hy, grad_cy, cx, cy, workspace
    i, f, g, o = saved.chunk(4, 1)
    tanh = new.tanh()
    by_cell = torch.zeros_like(new, device="cpu") if by_c is None else by_c
    by_o = torch.zeros_like(o, device="cpu")
    if by_h is not None:
        by_cell = by_cell + by_h * o * (1 - tanh * tanh)
        by_o = by_h * tanh * o * (1 - o)
    by_gates = torch.cat([by_cell * g * i * (1 - i), by_cell * old * f * (1 - f), by_cell * i * (1 - g * g), by_o], 1)
    return by_gates, by_cell * f, by_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor]:
    """`_thnn_fused_gru_cell`: new hidden state, workspace."""
    x, h, state, bias_x, bias_h = input_gates, hidden_gates, hx, input_bias, hidden_bias
    reset_x, update_x, new_x = _plus(x, bias_x).chunk(3, 1)
    reset_h, update_h, new_h = _plus(h, bias_h).chunk(3, 1)
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (state - new) * update + new, torch.cat([reset, update, new, state, new_h], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Maybe, Maybe]:
    """`_thnn_fused_gru_cell_backward`: gradients of both gates, of the state and of both biases."""
    by_h, saved = grad_hy, workspace
    reset, update, new, state, new_h = saved.chunk(5, 1)
    by_new = by_h * (1 - update) * (1 - new * new)
    by_update = by_h * (state - new) * update * (1 - update)
    by_reset = by_new * new_h * reset * (1 - reset)
    by_x = torch.cat([by_reset, by_update, by_new], 1)
    by_hidden = torch.cat([by_reset, by_update, by_new * reset], 1)
    biases = (by_x.sum(0), by_hidden.sum(0)) if has_bias else (None, None)
    return by_x, by_hidden, by_h * update, *biases


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": composed(lstm_cell),
    "aten::_thnn_fused_lstm_cell_backward_impl": composed(lstm_cell_backward),
    "aten::_thnn_fused_gru_cell": composed(gru_cell),
    "aten::_thnn_fused_gru_cell_backward": composed(gru_cell_backward),
}
