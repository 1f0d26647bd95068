"""Gradients of a recording: sizes from its rows of parameters, ready times from its rows of the backward pass.

A parameter's gradient is ready at the end of the last backward operator of the module that owns it: a recording has no
row of the gradient itself. The parameters of one module are therefore ready together. Backward operators of MindSpore
name no module: there it is the end of the module's own backward row, and of one whose input needs no gradient the end
of the backward pass.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from jumar.base.errors import InputError
from jumar.recording import CallRow, Recording
from jumar.tune.search.gradients.forms import item_size
from jumar.tune.search.gradients.model import Gradient, in_ready_order

NO_TIMES = (
    "has no step with rows of parameters and of the backward pass, which tell the gradients and their ready times. "
    "Record at least one whole step: jumar record -o FOLDER --steps 3 train.py."
)


def recorded_gradients(recording: Recording, rank: int | None = None) -> list[Gradient]:
    """Return the gradients of a recording in ready order: the median of its steps, without the first where it has more.

    With several ranks and none asked for, a gradient is ready when it is in the slowest. Raises InputError for a
    recording without gradients, RecordingError for a damaged one.
    """
    ranks = recording.ranks if rank is None else [rank]
    found = [times for one in ranks if (times := _of_rank(recording, one)) is not None]
    if not found:
        raise InputError(f"{recording.path} {NO_TIMES}")
    rows, _ = found[0]
    names = [name for name in rows if all(name in times for _, times in found)]
    if not names:
        raise InputError(f"{recording.path} {NO_TIMES}")
    return in_ready_order(
        [
            Gradient(
                name=name,
                size_bytes=_bytes_of(rows[name]),
                ready_ns=round(max(times[name] for _, times in found) * 1000),
                place=place,
                dtype=rows[name].inputs[0].dtype,
            )
            for place, name in enumerate(names)
        ]
    )


def _of_rank(recording: Recording, rank: int) -> tuple[dict[str, CallRow], dict[str, float]] | None:
    """Return the rows of the parameters and the ready time of each, in us; None where no step has any."""
    steps = recording.steps(rank)
    found = []
    for step in steps[1:] or steps:
        rows = recording.rows(step, rank)
        parameters = {_name(row): row for row in rows if row.kind == "parameter" and row.inputs}
        times = ready_us(rows, parameters)
        if times:
            found.append((parameters, times))
    if not found:
        return None
    names = [name for name in found[-1][0] if all(name in times for _, times in found)]
    medians = {name: statistics.median(times[name] for _, times in found) for name in names}
    return {name: found[-1][0][name] for name in names}, medians


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
