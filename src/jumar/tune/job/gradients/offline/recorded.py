"""Gradients of a recording: sizes from its rows of parameters, ready times from its backward pass or from a profile.

A parameter's gradient is ready at the end of the last backward operator of the module that owns it: a recording has no
row of the gradient itself. The parameters of one module are therefore ready together. Backward operators of MindSpore
name no module: there it is the end of the module's own backward row, and of one whose input needs no gradient the end
of the backward pass.

MindSpore counts the optimizer's parameters, so none may be left out there: one without a time is ready with the nearest
one before it, which is ready later.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jumar.base.errors import InputError
from jumar.recording import CallRow, Recording
from jumar.tune.search.gradients.forms import item_size
from jumar.tune.search.gradients.model import Gradient, in_ready_order

NO_TIMES = (
    "has no step with rows of parameters and of the backward pass, which tell the gradients and their ready times. "
    "Record at least one whole step: jumar record -o FOLDER --steps 3 train.py."
)
Times = Callable[[Sequence[CallRow], Mapping[str, CallRow]], Mapping[str, float]]
"""From the rows of a step, and those of its parameters by name, to the ready times in us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The gradients of a recording."""

    gradients: Sequence[Gradient]
    """In ready order."""
    num_untimed: int
    """Gradients without a time of their own."""


def recorded_gradients(recording: Recording, rank: int | None = None, times: Times | None = None) -> Recorded:
    """Return the gradients of a recording: the median of its steps, without the first where it has more.

    With several ranks and none asked for, a gradient is ready when it is in the slowest. `times` gives the ready times
    where the recording's own are not wanted. Raises InputError for a recording without gradients, RecordingError for a
    damaged one.
    """
    ranks = recording.ranks if rank is None else [rank]
    found = [one for number in ranks if (one := _of_rank(recording, number, times or ready_us)) is not None]
    if not found:
        raise InputError(f"{recording.path} {NO_TIMES}")
    rows, _ = found[0]
    timed = {name: max(known[name] for _, known in found) for name in rows if all(name in known for _, known in found)}
    if not timed:
        raise InputError(f"{recording.path} {NO_TIMES}")
    num_untimed = len(rows) - len(timed)
    if recording.info.framework == "mindspore":
        timed = with_untimed(list(rows), timed)
    gradients = [
        Gradient(
            name=name,
            size_bytes=_bytes_of(rows[name]),
            ready_ns=round(time * 1000),
            place=place,
            dtype=rows[name].inputs[0].dtype,
        )
        for place, (name, time) in enumerate(timed.items())
    ]
    return Recorded(gradients=in_ready_order(gradients), num_untimed=num_untimed)


def with_untimed(names: Sequence[str], timed: Mapping[str, float]) -> dict[str, float]:
    """Return a time for every name: where there is none that of the nearest one before it, else the last of all."""
    latest = max(timed.values())
    found: dict[str, float] = {}
    for name in names:
        latest = found[name] = timed.get(name, latest)
    return found


def _of_rank(recording: Recording, rank: int, times: Times) -> tuple[dict[str, CallRow], dict[str, float]] | None:
    """Return the rows of the parameters and the ready time of each, in us; None where no step has any."""
    steps = recording.steps(rank)
    found = []
    for step in steps[1:] or steps:
        rows = recording.rows(step, rank)
        parameters = {_name(row): row for row in rows if row.kind == "parameter" and row.inputs}
        known = times(rows, parameters)
        if known:
            found.append((parameters, known))
    if not found:
        return None
    names = [name for name in found[-1][0] if all(name in known for _, known in found)]
    medians = {name: statistics.median(known[name] for _, known in found) for name in names}
    return found[-1][0], medians


def ready_us(rows: Sequence[CallRow], parameters: Mapping[str, CallRow]) -> dict[str, float]:
    """Return when the gradient of each parameter was there, in us from the first backward row of a module."""
    ends: dict[str, float] = {}
    begins: list[float] = []
    owners = {row.module_path for row in parameters.values()}
    for row in _telling(rows, owners):
        begins.append(row.start_us)
        end = row.start_us + row.duration_us if row.kind == "op" or row.outputs else math.inf
        ends[row.module_path] = max(ends.get(row.module_path, 0.0), end)
    last = max((end for end in ends.values() if end < math.inf), default=0.0)
    last = max(last, *(row.start_us + row.duration_us for row in rows if row.phase == "backward"), 0.0)
    ends = {path: min(end, last) for path, end in ends.items()}
    return {name: ends[row.module_path] - min(begins) for name, row in parameters.items() if row.module_path in ends}


def _telling(rows: Sequence[CallRow], owners: set[str]) -> list[CallRow]:
    """Return the backward operators of the modules; where no operator names its module, the modules' own rows."""
    found = [row for row in rows if row.phase == "backward" and row.module_path in owners]
    return [row for row in found if row.kind == "op"] or [row for row in found if row.kind == "module"]


def _name(row: CallRow) -> str:
    return f"{row.module_path}.{row.name}" if row.module_path else row.name


def _bytes_of(row: CallRow) -> int:
    tensor = row.inputs[0]
    count = 1
    for size in tensor.shape:
        count *= size
    return count * item_size(tensor.dtype)
