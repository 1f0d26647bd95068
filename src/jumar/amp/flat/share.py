"""`Share`: what one parameter group has in one buffer, with its state, and the runs that update it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import torch

from jumar.amp.flat.buffer import Buffer
from jumar.amp.flat.formulas.formula import Formula, Group
from jumar.amp.flat.run import Piece, Run

Tensor = torch.Tensor
States = MutableMapping[Tensor, dict[str, Any]]
STEP = "step"


class Share:
    """The parameters of one group in one buffer: positions in it, flat states, number of updates of each.

    `state[parameter]` holds views of the flat states, in the parameter's shape, as `torch.optim` names them.
    """

    def __init__(self, buffer: Buffer, positions: Sequence[int], formula: Formula) -> None:
        self.buffer, self.positions, self.formula = buffer, list(positions), formula
        self.steps = torch.zeros(len(self.positions))
        self._counters = [self.steps[row] for row in range(len(self.positions))]
        self._flat: dict[str, Tensor] = {}
        self._owned = [False] * len(self.positions)
        self._known: tuple[tuple[bool, ...], tuple[str, ...]] | None = None
        self._runs: list[tuple[Run, int]] = []
        self._mask: Tensor | None = None

    def runs(self, present: tuple[bool, ...], states: States, group: Group) -> list[Run]:
        """Return the runs of this step, with their gradients, in no particular order; count the step.

        `present` says of each parameter of the buffer whether it has a gradient.
        """
        names = self.formula.state_names(group)
        if self._known != (present, names):
            self._prepare(present, names, states)
            self._known = (present, names)
        for run, position in self._runs:
            run.gradient = self._gradient(run, position)
            run.factor = 1.0
        if self._mask is None:
            self.steps.add_(1)
        else:
            self.steps.add_(self._mask)
        return [run for run, _ in self._runs]

    def uncount(self) -> None:
        """Take back the counting of a step that was not made."""
        self.steps.sub_(1 if self._mask is None else self._mask)

    def _gradient(self, run: Run, position: int) -> Tensor:
        """Return a run's flat gradient: of a large parameter where autograd left it."""
        if position >= self.buffer.num_small:
            return self.buffer.gradient_of(position)
        start, flat = self.buffer.starts[position], self.buffer.gradient
        assert flat is not None
        if run.gradient.data_ptr() == flat.data_ptr() + start * flat.element_size():
            return run.gradient
        return flat[start : start + run.parameter.numel()]

    # State -----------------------------------------------------------------------------------------------

    def _prepare(self, present: tuple[bool, ...], names: tuple[str, ...], states: States) -> None:
        here = [present[position] for position in self.positions]
        for name in names:
            if name not in self._flat:
                self._flat[name] = torch.full_like(self._span(self.buffer.flat), self.formula.initial(name))
                self._owned = [False] * len(self.positions)
        for row, there in enumerate(here):
            if there and not self._owned[row]:
                self._own(row, names, states)
        self._mask = None if all(here) else torch.tensor(here, dtype=self.steps.dtype)
        self._runs = [self._run(rows, names) for rows in self._stretches(here)]

    @property
    def _start(self) -> int:
        return self.buffer.starts[self.positions[0]]

    def _span(self, flat: Tensor) -> Tensor:
        """Return the part of a flat tensor of the buffer's length from the first of these parameters to the last."""
        last = self.positions[-1]
        return flat[self._start : self.buffer.starts[last] + self.buffer.lengths[last]]

    def _own(self, row: int, names: tuple[str, ...], states: States) -> None:
        """Move a parameter's state into the flat tensors, or begin it there."""
        position = self.positions[row]
        shows = self.formula.shows_steps
        # NOTE: not `get`: the states are a defaultdict, and an entry without content would be in the checkpoint.
        state = states[self.buffer.parameters[position]] if names or shows else {}
        was_started = any(state.get(name) is not None for name in names)
        for name in names:
            view, given = self._state_view(name, position), state.get(name)
            if given is None:
                view.fill_(self.formula.initial(name))
            elif given is not view:
                view.copy_(given)
            state[name] = view
        # NOTE: without a count in the state (SGD), what counts is whether a state was there.
        steps = state.get(STEP, 0.0) if shows else was_started
        self._counters[row].fill_(float(steps))
        if shows:
            state[STEP] = self._counters[row]
        self._owned[row] = True

    def _state_view(self, name: str, position: int) -> Tensor:
        buffer = self.buffer
        offset = buffer.starts[position] - self._start
        flat = self._flat[name]
        return flat.as_strided(buffer.shapes[position], buffer.strides[position], flat.storage_offset() + offset)

    # Runs ------------------------------------------------------------------------------------------------

    def _stretches(self, here: Sequence[bool]) -> Iterator[list[int]]:
        """Yield the rows of each run: small neighbours of one number of steps, or one large parameter."""
        steps = self.steps.tolist() if self.formula.reads_steps else [0.0] * len(here)
        rows: list[int] = []
        for row, there in enumerate(here):
            is_large = self.positions[row] >= self.buffer.num_small
            is_next = bool(rows) and self.positions[row] == self.positions[rows[-1]] + 1
            if rows and (not there or is_large or not is_next or steps[row] != steps[rows[-1]]):
                yield rows
                rows = []
            if there and is_large:
                yield [row]
            elif there:
                rows.append(row)
        if rows:
            yield rows

    def _run(self, rows: Sequence[int], names: Sequence[str]) -> tuple[Run, int]:
        buffer = self.buffer
        first, last = self.positions[rows[0]], self.positions[rows[-1]]
        start, stop = buffer.starts[first], buffer.starts[last] + buffer.lengths[last]
        pieces = [
            Piece(buffer.starts[position] - start, buffer.lengths[position], tuple(buffer.shapes[position]))
            for position in (self.positions[row] for row in rows)
        ]
        state = {name: self._flat[name][start - self._start : stop - self._start] for name in names}
        parameter = buffer.flat[start:stop]
        return Run(parameter, parameter[:0], state, self._counters[rows[0]], pieces), first


def shares_of(buffers: Sequence[Buffer], groups: Sequence[Group], formula: Formula) -> list[list[Share]]:
    """Return, by group, what it has in each buffer: small and large parameters apart, as they lie apart."""
    place = {
        id(parameter): (buffer, position) for buffer in buffers for position, parameter in enumerate(buffer.parameters)
    }
    found: list[list[Share]] = []
    for group in groups:
        of_part: dict[tuple[int, bool], tuple[Buffer, list[int]]] = {}
        for parameter in group["params"]:
            buffer, position = place[id(parameter)]
            of_part.setdefault((id(buffer), position < buffer.num_small), (buffer, []))[1].append(position)
        found.append([Share(buffer, sorted(positions), formula) for buffer, positions in of_part.values()])
    return found
