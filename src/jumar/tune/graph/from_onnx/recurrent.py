"""ONNX operators that go step by step over a sequence: LSTM, GRU, RNN.

What PyTorch has as one operator is that one, so that engines know it; everything else is written out step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from jumar.tune.graph.from_onnx.call import Call, computes
from jumar.tune.model.errors import TuneError

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Relu": torch.relu,
    "Softsign": torch.nn.functional.softsign, "Softplus": torch.nn.functional.softplus,
}  # fmt: skip
_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ROWS = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2], "RNN": [0]}
"""Where PyTorch's gates are among ONNX's: (input, forget, cell, output) of iofc, (reset, update, new) of zrh."""

Carried = tuple[torch.Tensor, torch.Tensor]
"""Hidden state and, for LSTM, the cell's."""


@dataclass(frozen=True, slots=True)
class _Direction:
    """The weights of one direction."""

    kind: str
    weight: torch.Tensor
    recurrence: torch.Tensor
    bias: torch.Tensor
    """Of the input, then of the recurrence."""
    peepholes: torch.Tensor | None
    activations: Sequence[str]
    is_reset_late: bool


@computes("LSTM", "GRU", "RNN")
def _recurrent(call: Call) -> tuple[torch.Tensor, ...]:
    kind, is_batch_first = call.operator, bool(call.attribute("layout", 0))
    source = call.tensor(0).transpose(0, 1) if is_batch_first else call.tensor(0)
    _refuse(call, source.shape[0])
    weight, recurrence = call.tensor(1), call.tensor(2)
    num_directions, hidden = recurrence.shape[0], recurrence.shape[2]
    bias = call.optional(3)
    if bias is None:
        bias = source.new_zeros(num_directions, 2 * _GATES[kind] * hidden)
    first = [_initial(call, place, source, num_directions, hidden, is_batch_first) for place in (5, 6)]
    peepholes = call.optional(7) if kind == "LSTM" else None
    names = call.attribute("activations") or _USUAL[kind] * num_directions
    step = len(_USUAL[kind])
    outputs, carried = [], []
    for place in range(num_directions):
        direction = _Direction(
            kind, weight[place], recurrence[place], bias[place], None if peepholes is None else peepholes[place],
            [str(name) for name in names[place * step : (place + 1) * step]],
            kind != "GRU" or bool(call.attribute("linear_before_reset", 0)),
        )  # fmt: skip
        backwards = place == 1 or call.attribute("direction", "forward") == "reverse"
        given = source.flip(0) if backwards else source
        made, last = _ran(direction, given, (first[0][place], first[1][place]))
        outputs.append(made.flip(0) if backwards else made)
        carried.append(last)
    y = torch.stack(outputs, 1)
    states = [torch.stack([one[number] for one in carried]) for number in range(2)]
    if is_batch_first:
        y, states = y.permute(2, 0, 1, 3), [state.transpose(0, 1) for state in states]
    return (y, *(states if kind == "LSTM" else states[:1]))


def _refuse(call: Call, length: int) -> None:
    if call.attribute("clip") is not None or call.attribute("input_forget", 0):
        raise TuneError(f"{call} clips or couples its gates, which is not converted to PyTorch's operators.")
    known = call.inputs[4] if call.has(4) else None
    if call.has(4) and not (isinstance(known, np.ndarray) and bool((known == length).all())):
        raise TuneError(
            f"{call} has sequences of several lengths, which is not converted so far; pad them to {length}."
        )
    names = call.attribute("activations") or []
    if strange := sorted(set(map(str, names)) - set(_ACTIVATIONS)):
        raise TuneError(f"{call} has the activation {', '.join(strange)}, which is not converted to PyTorch's.")


def _initial(
    call: Call, place: int, source: torch.Tensor, num_directions: int, hidden: int, is_batch_first: bool
) -> torch.Tensor:
    given = call.optional(place) if call.operator == "LSTM" or place == 5 else None
    if given is None:
        return source.new_zeros(num_directions, source.shape[1], hidden)
    return given.transpose(0, 1) if is_batch_first else given


def _ran(direction: _Direction, source: torch.Tensor, first: Carried) -> tuple[torch.Tensor, Carried]:
    """Return the outputs (length, batch, hidden) and the last states."""
    usual = list(direction.activations) in (_USUAL[direction.kind], ["Relu"] if direction.kind == "RNN" else None)
    if usual and direction.peepholes is None and direction.is_reset_late:
        return _as_one(direction, source, first)
    step = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[direction.kind]
    carried, made = first, []
    for x in source.unbind(0):
        carried = step(direction, x, carried)
        made.append(carried[0])
    return torch.stack(made), carried


def _as_one(direction: _Direction, source: torch.Tensor, first: Carried) -> tuple[torch.Tensor, Carried]:
    """Compute it with PyTorch's operator; its gates have another order."""
    weights = [_reordered(direction, one) for one in (direction.weight, direction.recurrence)]
    weights += [_reordered(direction, one) for one in direction.bias.chunk(2)]
    rest = (weights, True, 1, 0.0, False, False, False)
    if direction.kind == "LSTM":
        made, hidden, cell = torch.lstm(source, [first[0][None], first[1][None]], *rest)
        return made, (hidden[0], cell[0])
    function = torch.gru if direction.kind == "GRU" else torch.rnn_tanh
    if list(direction.activations) == ["Relu"]:
        function = torch.rnn_relu
    made, hidden = function(source, first[0][None], *rest)
    return made, (hidden[0], first[1])


def _reordered(direction: _Direction, tensor: torch.Tensor) -> torch.Tensor:
    parts = tensor.chunk(_GATES[direction.kind])
    return torch.cat([parts[place] for place in _ROWS[direction.kind]])


def _lstm(direction: _Direction, x: torch.Tensor, carried: Carried) -> Carried:
    hidden, cell = carried
    input_gate, output_gate, forget_gate, made = _sums(direction, x, hidden).chunk(4, -1)
    gate, squash, final = (_ACTIVATIONS[name] for name in direction.activations)
    peep_in, peep_out, peep_forget = (
        direction.peepholes.chunk(3) if direction.peepholes is not None else (torch.zeros(()),) * 3
    )
    cell = gate(forget_gate + peep_forget * cell) * cell + gate(input_gate + peep_in * cell) * squash(made)
    return gate(output_gate + peep_out * cell) * final(cell), cell


def _gru(direction: _Direction, x: torch.Tensor, carried: Carried) -> Carried:
    hidden = carried[0]
    gate, squash = (_ACTIVATIONS[name] for name in direction.activations)
    of_input, of_hidden = direction.bias.chunk(2)
    given = torch.nn.functional.linear(x, direction.weight, of_input).chunk(3, -1)
    weights, biases = direction.recurrence.chunk(3), of_hidden.chunk(3)
    kept = [torch.nn.functional.linear(hidden, weights[place], biases[place]) for place in range(3)]
    update, reset = gate(given[0] + kept[0]), gate(given[1] + kept[1])
    if direction.is_reset_late:
        fresh = reset * kept[2]
    else:
        fresh = torch.nn.functional.linear(reset * hidden, weights[2], biases[2])
    return (1 - update) * squash(given[2] + fresh) + update * hidden, carried[1]


def _rnn(direction: _Direction, x: torch.Tensor, carried: Carried) -> Carried:
    return _ACTIVATIONS[direction.activations[0]](_sums(direction, x, carried[0])), carried[1]


def _sums(direction: _Direction, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    of_input, of_hidden = direction.bias.chunk(2)
    return torch.nn.functional.linear(x, direction.weight, of_input) + torch.nn.functional.linear(
        hidden, direction.recurrence, of_hidden
    )
