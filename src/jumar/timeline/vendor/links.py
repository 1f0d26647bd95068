"""Arrows of a trace become links: a call of the framework, the call of CANN and the kernels they started share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jumar.timeline.model.events import Kind
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files.traces import Place, TraceReader
from jumar.timeline.vendor.text.losses import Losses

_FRAMEWORK = "async_npu"
_CANN = ("HostToDevice", "hosttodevice")


def set_links(trace: TraceReader, columns: EventColumns, file: str, losses: Losses) -> None:
    """Set `link` of every event that an arrow touches.

    First the framework's arrows (`async_npu`): the kernels of one operator share the operator's link. Then CANN's
    (`HostToDevice`): the launch joins them, or has a link of its own where the framework is not in the trace. At low
    levels of the profiler the launches are left out of the trace, and CANN's arrows lead to kernels all the same.
    """
    for category in _FRAMEWORK, *_CANN:
        for begins, ends in _of(trace, category):
            _join(begins, ends, trace.rows, columns)
    _make_operators(trace, columns)
    num_loose = sum(
        not any(columns.link[trace.rows[place]] for place in ends if place in trace.rows)
        for category in (_FRAMEWORK, *_CANN)
        for _, ends in _of(trace, category)
    )
    if num_loose:
        losses.say(file, f"{num_loose} arrows lead to no kernel, or from no call.")


def _of(trace: TraceReader, category: str) -> Iterator[tuple[list[Place], list[Place]]]:
    return (ends for (name, _), ends in trace.arrows.items() if name == category)


def _join(begins: list[Place], ends: list[Place], rows: Mapping[Place, int], columns: EventColumns) -> None:
    calls = [rows[place] for place in begins if place in rows]
    kernels = [rows[place] for place in ends if place in rows]
    if not calls or not kernels:
        return
    known = (columns.link[row] for row in (*kernels, *calls) if columns.link[row])
    link = next(known, calls[0] + 1)
    for row in (*calls, *kernels):
        columns.link[row] = columns.link[row] or link


def _make_operators(trace: TraceReader, columns: EventColumns) -> None:
    """Give what starts kernels the kind of operators: torch_npu's own calls (`Conv2D`) look like ranges of the user."""
    calls = (trace.rows[place] for begins, _ in _of(trace, _FRAMEWORK) for place in begins if place in trace.rows)
    names = {columns.name[row] for row in calls if columns.kind[row] == Kind.RANGE}
    for row, name in enumerate(columns.name):
        if name in names and columns.kind[row] == Kind.RANGE:
            columns.kind[row] = int(Kind.OPERATOR)
