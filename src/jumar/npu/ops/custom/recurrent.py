"""LSTM and GRU layers by the vendor's names: one layer, one direction, time first.

Weights are transposed with respect to `torch.nn.LSTM` and `torch.nn.GRU`: (inputs, gates * hidden), gates in
PyTorch's order. Every time step of the states is returned, beside the gates that the backward needs. As in the
vendor's backward, a gradient reaches the states through the sequence `y` and the last step alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.gradients import differentiate, like
from jumar.npu.ops.mechanism.implement import implements, instead

Tensor = torch.Tensor
Steps = tuple[Tensor, ...]


def _last_only(states: Tensor) -> Tensor:
    """Return all steps of a state, of which only the last carries a gradient."""
    return torch.cat([states[:-1].detach(), states[-1:]])


def _lstm_step(gates: Tensor, cell: Tensor) -> Steps:
    """Return state, cell, the gates i, j, f, o and tanh of the cell, from gates (batch, 4 * hidden): i, f, j, o."""
    i, f, j, o = gates.chunk(4, -1)
    i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
    new = f * cell + i * j
    tanh = new.tanh()
    return o * tanh, new, i, j, f, o, tanh


def _lstm(x: Tensor, weight: Tensor, bias: Tensor | None, h: Tensor, c: Tensor, mask: Tensor | None) -> Steps:
    """Run an LSTM over x (time, batch, inputs). Where the mask is 0 the state stays and the output is 0."""
    found: list[Steps] = []
    for t in range(x.shape[0]):
        gates = torch.cat([x[t], h], -1) @ weight
        new_h, new_c, *rest = _lstm_step(gates if bias is None else gates + bias, c)
        if mask is None:
            h, c, y = new_h, new_c, new_h
        else:
            c = new_c * mask[t] + c * (1 - mask[t])
            rest[4] = c.tanh()
            y = rest[3] * rest[4] * mask[t]
            h = y + h * (1 - mask[t])
        found.append((y, h, c, *rest))
    y, h_steps, c_steps, *kept = (torch.stack(items) for items in zip(*found, strict=True))
    return y, _last_only(h_steps), _last_only(c_steps), *kept


def _state(value: Tensor) -> Tensor:
    return value.squeeze(0) if value.dim() == 3 else value


def _check_lstm(name: str, num_layers: int, dropout: float, bidirectional: bool, batch_first: bool) -> None:
    if num_layers != 1 or dropout or bidirectional or batch_first:
        refuse(
            name,
            "several layers, dropout, both directions and batch first",
            "the device takes one layer, one direction, time first; use torch.nn.LSTM",
        )


@implements("npu_lstm", outputs=(0, 1, 2))
def lstm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    seq_mask: Tensor,
    h: Tensor,
    c: Tensor,
    _has_biases: bool,
    num_layers: int,
    dropout: float,
    _train: bool,
    bidirectional: bool,
    batch_first: bool,
    flag_seq: bool,
    direction: bool,
) -> Steps:
    """y, states, cells, gates i, j, f, o and tanh of the cells, all (time, batch, hidden).

    x (time, batch, inputs), weight (inputs + hidden, 4 * hidden), bias (4 * hidden,), h and c (1, batch, hidden).
    seq_mask (time, batch, hidden) is read with `flag_seq`: 1 where a sequence has a step.
    """
    _check_lstm("npu_lstm", num_layers, dropout, bidirectional, batch_first)
    if direction:
        refuse("npu_lstm", "direction=True", "which end its states start from is not documented; flip the input")
    mask = seq_mask.to(x.dtype) if flag_seq else None
    return _lstm(x, weight, bias, _state(h), _state(c), mask)


@implements("npu_lstm_data", outputs=(0, 1, 2))
def lstm_data(x: Tensor, _batch_sizes: Tensor, *rest: Any) -> Steps:
    """`npu_lstm` of padded sequences; the mask says which steps there are, as in `npu_lstm`."""
    return lstm(x, *rest)


def _zeros(gradient: Tensor | None, shape: Sequence[int], like_: Tensor) -> Tensor:
    return like_.new_zeros(tuple(shape)) if gradient is None else gradient


def _lstm_gradients(inputs: Steps, mask: Tensor | None, seeds: Sequence[Tensor | None]) -> Steps:
    def forward(x: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> Steps:
        return _lstm(x, weight, bias, _state(h), _state(c), mask)[:3]

    return tuple(differentiate(forward, inputs, seeds))


def _lstm_shapes(
    _y: Any, _h: Any, _c: Any, x: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Tensor, *_: Any
) -> Steps:
    return like(x, weight, bias, h, c)


@implements("npu_lstm_backward", differentiable=False, meta=_lstm_shapes)
def lstm_backward(
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    grad_c: Tensor | None,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    h: Tensor,
    c: Tensor,
    *_saved: Tensor,
) -> Steps:
    """Gradients of input, weight, bias and both first states. Of those of the states only the last step counts."""

    return _lstm_gradients((x, weight, bias, h, c), None, (grad_y, grad_h, grad_c))


def _data_shapes(_y: Any, _h: Any, _c: Any, x: Tensor, _sizes: Tensor, *rest: Tensor) -> Steps:
    return like(x, *rest[:4])


@implements("npu_lstm_data_backward", differentiable=False, meta=_data_shapes)
def lstm_data_backward(
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    grad_c: Tensor | None,
    x: Tensor,
    batch_sizes: Tensor,
    weight: Tensor,
    bias: Tensor,
    h: Tensor,
    c: Tensor,
    y: Tensor,
    *rest: Any,
) -> Steps:
    """As `npu_lstm_backward`, for sequences of which `batch_sizes[t]` have a step t."""
    if rest[-1]:
        refuse("npu_lstm_data_backward", "flag_direction=True", "flip the input instead")
    batch = torch.arange(x.shape[1]).view(1, -1, 1)
    mask = (batch < batch_sizes.view(-1, 1, 1).to(batch.device)).to(x.dtype).expand(-1, -1, y.shape[2])

    return _lstm_gradients((x, weight, bias, h, c), mask, (grad_y, grad_h, grad_c))


@implements("npu_lstm_cell", outputs=(0, 1, 2))
def lstm_cell(
    x: Tensor, w_ih: Tensor, w_hh: Tensor, h: Tensor, c: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Steps:
    """One step: y (1, batch, hidden), state and cell (batch, hidden), then i, j, f, o, tanh (1, batch, hidden).

    x (batch, inputs), w_ih (inputs, 4 * hidden), w_hh (hidden, 4 * hidden). Without b_ih there is no bias at all.
    """
    gates = x @ w_ih + h @ w_hh
    if b_ih is not None:
        gates = gates + b_ih + (0 if b_hh is None else b_hh)
    new_h, new_c, *rest = _lstm_step(gates, c)
    return new_h.unsqueeze(0), new_h, new_c, *(item.unsqueeze(0) for item in rest)


def _cell_shapes(
    _y: Any, _h: Any, _c: Any, x: Tensor, w_ih: Tensor, w_hh: Tensor, h: Tensor, c: Tensor, *_: Any
) -> Steps:
    bias = x.new_empty(w_hh.shape[1])
    by_x, by_ih, by_hh, by_h, by_c = like(x, w_ih, w_hh, h, c)
    return by_x, by_ih, by_hh, bias, torch.empty_like(bias), by_h, by_c


@implements("npu_lstm_cell_backward", differentiable=False, meta=_cell_shapes)
def lstm_cell_backward(
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    grad_c: Tensor | None,
    x: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    c: Tensor,
    _y: Tensor,
    _h: Tensor,
    _c: Tensor,
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    tanh: Tensor,
) -> Steps:
    """Gradients of input, both weights, both biases (which are equal) and both states, from the gates saved."""
    i, j, f, o, tanh = (item.reshape(h.shape) for item in (i, j, f, o, tanh))
    by_state = _zeros(grad_h, h.shape, h).reshape(h.shape) + _zeros(grad_y, h.shape, h).reshape(h.shape)
    by_cell = _zeros(grad_c, c.shape, c).reshape(c.shape) + by_state * o * (1 - tanh * tanh)
    gates = [
        by_cell * j * i * (1 - i),
        by_cell * c * f * (1 - f),
        by_cell * i * (1 - j * j),
        by_state * tanh * o * (1 - o),
    ]
    by_gates = torch.cat(gates, -1)
    bias = by_gates.sum(0)
    return by_gates @ w_ih.t(), x.t() @ by_gates, h.t() @ by_gates, bias, bias.clone(), by_gates @ w_hh.t(), by_cell * f


def _gru(x: Tensor, w_in: Tensor, w_hidden: Tensor, b_in: Tensor, b_hidden: Tensor, h: Tensor) -> Steps:
    """Return y, states, update, reset and new gates, and the hidden part of the new gate, by step."""
    found: list[Steps] = []
    for step in x @ w_in + b_in:
        by_hidden = h @ w_hidden + b_hidden
        reset_x, update_x, new_x = step.chunk(3, -1)
        reset_h, update_h, new_h = by_hidden.chunk(3, -1)
        reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
        new = (new_x + reset * new_h).tanh()
        h = (1 - update) * new + update * h
        found.append((h, h, update, reset, new, new_h))
    y, states, *rest = (torch.stack(items) for items in zip(*found, strict=True))
    return y, _last_only(states), *rest


@implements("npu_gru", outputs=(0, 1))
def gru(
    x: Tensor,
    h: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    _seq_length: Tensor,
    _has_biases: bool,
    num_layers: int,
    dropout: float,
    _train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Steps:
    """y, states, update, reset, new and the hidden part of new, all (time, batch, hidden).

    x (time, batch, inputs), h (1, batch, hidden), weights (inputs, 3 * hidden) and (hidden, 3 * hidden) in the
    order reset, update, new. The device runs one layer forwards whatever the last arguments say, and reads
    neither `seq_length` nor `has_biases`.
    """
    _check_lstm("npu_gru", num_layers, dropout, bidirectional, batch_first)
    expect(x.dim() == 3, "npu_gru", "the input must have 3 dimensions", x.dim())
    return _gru(x, weight_input, weight_hidden, bias_input, bias_hidden, _state(h))


def _gru_shapes(_y: Any, _h: Any, x: Tensor, w_in: Tensor, w_hidden: Tensor, b_in: Tensor, b_hidden: Tensor,
                _length: Tensor, h: Tensor, *_: Any) -> Steps:  # fmt: skip
    return like(w_in, w_hidden, x, b_in, b_hidden, h)


@implements("npu_gru_backward", differentiable=False, meta=_gru_shapes)
def gru_backward(
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    x: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    _seq_length: Tensor,
    h: Tensor,
    *_saved: Tensor,
) -> Steps:
    """Gradients of both weights, the input, both biases and the first state."""

    def forward(w: Tensor, u: Tensor, values: Tensor, b: Tensor, d: Tensor, state: Tensor) -> Steps:
        return _gru(values, w, u, b, d, _state(state))[:2]

    inputs = (weight_input, weight_hidden, x, bias_input, bias_hidden, h)
    return tuple(differentiate(forward, inputs, (grad_y, grad_h)))


instead(
    "it is what torch.nn.LSTM and torch.nn.GRU call: use those",
    "_lstm_npu",
    "_lstm_npu_backward",
    "_gru_npu",
    "_gru_npu_backward",
)
