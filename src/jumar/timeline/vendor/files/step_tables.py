"""Tables of steps: `step_trace_time.csv`, `step_trace_*.csv`, MindSpore's `step_trace_raw_*_detail_time.csv`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jumar.timeline.model.events import StepWindow
from jumar.timeline.vendor.text import quantities, tables
from jumar.timeline.vendor.text.losses import Losses

_SHARES: tables.Columns = {
    "device": ("Device_id",),
    "step": ("Step",),
    "computing": ("Computing",),
    "uncovered": ("Communication(Not Overlapped)", "Communication (Not Overlapped)"),
    "overlapped": ("Overlapped",),
    "communication": ("Communication",),
    "free": ("Free",),
    "stage": ("Stage",),
    "bubble": ("Bubble",),
    "preparing": ("Preparing",),
}
_ITERATIONS: tables.Columns = {
    "number": ("Iteration ID",),
    "forward": ("FP Start",),
    "backward": ("BP End",),
    "end": ("Iteration End",),
    "duration": ("Iteration Time",),
}
_TICKS: tables.Columns = {
    "number": ("step_num",),
    "start": ("start_point",),
    "end": ("end_point",),
    "forward": ("fp_point",),
    "backward": ("bp_point",),
}
_TICK_NS = 10
"""MindSpore's step trace counts ticks of the chip's 100 MHz clock."""


@dataclass(frozen=True, slots=True)
class Share:
    """One row of `step_trace_time.csv`: how a step's time on a device is divided, in nanoseconds."""

    device: int
    step: int
    """-1 where the row names none."""
    computing_ns: int
    text: dict[str, str]
    """All that the row tells, in microseconds."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of a graph on the chip; None where a point was not recorded."""

    window: StepWindow
    forward_ns: int | None
    backward_ns: int | None


def shares(path: Path, losses: Losses) -> list[Share]:
    """Return the rows of `step_trace_time.csv`. Raises OSError."""
    found = []
    for row in tables.rows(path, _SHARES, ("computing", "free"), losses):
        computing = row.ns("computing")
        if computing is None:
            losses.passed_over(path.name, "their time of computing is no number")
            continue
        step, device = row.integer("step"), row.integer("device")
        found.append(
            Share(
                0 if device is None else device, -1 if step is None else step, computing,
                {name: row.text(name) for name in _SHARES if row.text(name)},
            )
        )  # fmt: skip
    return found


def as_fact(found: Iterable[Share]) -> str:
    """Return the rows as JSON for `Timeline.facts`."""
    return json.dumps([share.text for share in list(found)[:1000]])


def iterations(paths: Iterable[Path], losses: Losses) -> list[Iteration]:
    """Return the steps of msprof's `step_trace_*.csv`, in the clock of its other files. Raises OSError."""
    found = []
    for path in paths:
        for row in tables.rows(path, _ITERATIONS, ("number", "end", "duration"), losses):
            number, end, duration = row.integer("number"), row.ns("end"), row.ns("duration")
            if number is None or end is None or duration is None:
                losses.passed_over(path.name, "their number, end or length is no number")
                continue
            found.append(Iteration(StepWindow(number, end - duration, end), row.ns("forward"), row.ns("backward")))
    return found


def ticks(path: Path, losses: Losses) -> list[Iteration]:
    """Return the steps of MindSpore's `step_trace_raw_*_detail_time.csv`, in the chip's own clock. Raises OSError."""
    found = []
    for row in tables.rows(path, _TICKS, ("number", "start", "end"), losses):
        number, start, end = row.integer("number"), _ticks(row, "start"), _ticks(row, "end")
        if row.text("number") in ("", "-"):
            continue  # the row of averages
        if number is None or start is None or end is None or end < start:
            losses.passed_over(path.name, "their number, begin or end is no number")
            continue
        found.append(Iteration(StepWindow(number, start, end), _ticks(row, "forward"), _ticks(row, "backward")))
    return found


def _ticks(row: tables.Row, column: str) -> int | None:
    value = quantities.decimal(row.text(column))
    return None if value is None else round(value * _TICK_NS)
