"""A timeline -> the table of its operators and kernels by the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jumar.base.text.digits import Cell
from jumar.show.blocks.page import Column, Table
from jumar.show.pages.profile.launched import device_ns
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind, StepWindow, Timeline
from jumar.timeline.spans import Spans

MAX_ROWS = 500


def shapes_table(timeline: Timeline, windows: Sequence[StepWindow]) -> Table | None:
    """Return operators by shapes with own host time, started device time and calls a step; None without shapes.

    Kernels stand with their own shapes where the format knows these (Ascend).
    """
    if not any(detail.shapes for detail in timeline.details):
        return None
    events = timeline.events
    starts = np.array([step.start_ns for step in windows], np.int64)
    inside = Spans.of(starts, np.array([step.end_ns for step in windows], np.int64)).hold(events.start_ns)
    shaped = np.array([bool(detail.shapes) for detail in timeline.details] + [False])[events.detail]
    host = np.flatnonzero(inside & timeline.of(Kind.OPERATOR) & timeline.on("host"))
    host, own = _own_ns(timeline, host)
    device = device_ns(timeline, host)
    kernels = np.flatnonzero(inside & shaped & timeline.of(Kind.KERNEL) & timeline.on("device"))
    lengths = events.duration_ns[kernels].astype(float)
    rows = np.concatenate([host[shaped[host]], kernels])
    host_ns = np.concatenate([own[shaped[host]], np.zeros(len(kernels))])
    work_ns = np.concatenate([device[shaped[host]], lengths])
    return _table(timeline, rows, host_ns, work_ns, max(len(windows), 1)) if len(rows) else None


def _own_ns(timeline: Timeline, rows: Integers) -> tuple[Integers, np.ndarray]:
    """Return the calls in the order of nesting, and the time of each without the calls inside of it."""
    events = timeline.events
    lanes = events.lane[rows].astype(np.int64)
    rows = rows[nesting.in_order(lanes, events.start_ns[rows], events.duration_ns[rows])]
    lengths = events.duration_ns[rows]
    holders = nesting.parents(events.lane[rows].astype(np.int64), events.start_ns[rows], lengths)
    return rows, (lengths - nesting.children_ns(holders, lengths)).astype(float)


def _table(timeline: Timeline, rows: Integers, host_ns: np.ndarray, work_ns: np.ndarray, steps: int) -> Table:
    events = timeline.events
    keys = events.name[rows].astype(np.int64) * (len(timeline.details) + 1) + events.detail[rows]
    unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
    calls = np.bincount(group)
    host, work = np.bincount(group, host_ns), np.bincount(group, work_ns)
    merged: dict[tuple[str, str, str], list[float]] = {}
    for index in range(len(unique)):
        row = int(rows[first[index]])
        detail = timeline.details[events.detail[row]]
        name = dict(detail.more).get("Op Type") or timeline.name_of(row)
        sums = merged.setdefault((name, detail.shapes, detail.dtypes), [0.0, 0.0, 0.0])
        for place, value in enumerate((calls[index], host[index], work[index])):
            sums[place] += float(value)
    ranked = sorted(merged.items(), key=lambda item: -(item[1][1] + item[1][2]))
    columns = [
        Column(title="operator", code=True), Column(title="shapes of inputs", code=True), Column(title="dtypes"),
        Column(title="calls", unit="a step", number=True),
        Column(title="own host time", unit="ms a step", number=True, bar=True),
        Column(title="device time", unit="ms a step", number=True, bar=True),
    ]  # fmt: skip
    cells: list[list[Cell]] = [
        [
            name,
            shapes,
            dtypes,
            *(round(value / scale / steps, 6) for value, scale in zip(sums, (1, 1e6, 1e6), strict=True)),
        ]
        for (name, shapes, dtypes), sums in ranked[:MAX_ROWS]
    ]
    hidden = len(ranked) - len(cells)
    return Table(columns=columns, rows=cells, title=f"{hidden:,} rows with less time are left out" if hidden else "")
