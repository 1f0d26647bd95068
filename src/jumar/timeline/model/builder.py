"""`TimelineBuilder`: takes events one after the other, or in columns, and makes a `Timeline` of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from jumar.timeline.model.events import COLUMNS, Counter, Detail, Events, Kind, Lane, StepOrigin, StepWindow, Timeline

_CODES = {np.int64: "q", np.int32: "i", np.uint8: "B"}

LEAST_COMPILE_NS = 1_000_000
"""An operator takes tens of milliseconds to compile, and tens of microseconds to launch once it is compiled."""


class TimelineBuilder:
    """Collects events in any order. Times are absolute nanoseconds; `build` subtracts the earliest."""

    def __init__(self) -> None:
        self._columns = {name: array(_CODES[kind]) for name, kind in COLUMNS.items()}
        self._names: dict[str, int] = {}
        self._lanes: dict[Lane, int] = {}
        self._details: dict[Detail, int] = {}
        self._counters: dict[tuple[str, str], tuple[array[int], array[float]]] = {}
        self.lost: list[str] = []
        """Sentences about what could not be read."""

    def name(self, text: str) -> int:
        """Return the index of a name."""
        return self._names.setdefault(text, len(self._names))

    def lane(self, lane: Lane) -> int:
        """Return the index of a lane."""
        return self._lanes.setdefault(lane, len(self._lanes))

    def detail(self, detail: Detail) -> int:
        """Return the index of a detail."""
        return self._details.setdefault(detail, len(self._details))

    def add(
        self, start_ns: int, duration_ns: int, kind: Kind, name: int, lane: int, *,
        detail: int = -1, link: int = 0, sequence: int = -1,
    ) -> None:  # fmt: skip
        """Take one event. A negative length counts as 0: some writers round both ends apart."""
        row = (start_ns, max(duration_ns, 0), int(kind), name, lane, detail, link, sequence)
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)

    def extend(self, **columns: Any) -> None:
        """Take events in columns: a value for each column of `Events`, arrays of one length; absolute nanoseconds."""
        for name, kind in COLUMNS.items():
            self._columns[name].frombytes(np.ascontiguousarray(columns[name], kind).tobytes())

    def count(self, name: str, unit: str, time_ns: int, value: float) -> None:
        """Take one value of a counter."""
        times, values = self._counters.setdefault((name, unit), (array("q"), array("d")))
        times.append(time_ns)
        values.append(value)

    def build(self, *, steps: Iterable[StepWindow] = (), steps_from: StepOrigin = "none", **fields: Any) -> Timeline:
        """Return the timeline: events sorted by begin, the longer first, with times since the earliest event.

        `steps` are in absolute nanoseconds; `fields` are the other fields of `Timeline`.
        """
        columns = {name: np.frombuffer(column, COLUMNS[name]) for name, column in self._columns.items()}
        order = np.lexsort((-columns["duration_ns"], columns["start_ns"]))
        events = self._launched(Events(**{name: column[order] for name, column in columns.items()}))
        origin = self.origin_ns
        return Timeline(
            events=replace(events, start_ns=events.start_ns - origin),
            names=tuple(self._names),
            lanes=tuple(self._lanes),
            details=tuple(self._details),
            steps=tuple(StepWindow(step.number, step.start_ns - origin, step.end_ns - origin) for step in steps),
            steps_from=steps_from,
            counters=tuple(self._counter(name, unit, origin) for name, unit in self._counters),
            origin_ns=origin,
            lost=(*fields.pop("lost", ()), *self.lost),
            **fields,
        )

    def _launched(self, events: Events) -> Events:
        """Take CANN's calls that compile where they must for launches where they were too short to have compiled."""
        either = [index for name, index in self._names.items() if "CompileAndExecute" in name]
        short = np.isin(events.name, either) & (events.kind == Kind.COMPILE) & (events.duration_ns < LEAST_COMPILE_NS)
        return replace(events, kind=np.where(short, np.uint8(Kind.RUNTIME), events.kind)) if short.any() else events

    @property
    def origin_ns(self) -> int:
        """The earliest time so far: of the events, or of the counters of a timeline that has nothing else."""
        starts = np.frombuffer(self._columns["start_ns"], np.int64)
        return (
            int(starts.min()) if len(starts) else min((min(times) for times, _ in self._counters.values()), default=0)
        )

    @property
    def has_counters(self) -> bool:
        """Whether a counter has a value."""
        return bool(self._counters)

    def _counter(self, name: str, unit: str, origin: int) -> Counter:
        times, values = (np.array(column) for column in self._counters[name, unit])
        order = np.argsort(times, kind="stable")
        return Counter(name=name, unit=unit, times_ns=times[order] - origin, values=values[order].astype(float))
