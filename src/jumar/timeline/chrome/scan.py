"""`Scanning`: the events of a Kineto trace without their arguments -> a `Timeline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.timeline.chrome.columns import Columns
from jumar.timeline.chrome.gather import complete, no_events
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Lane, Timeline
from jumar.timeline.model.source import Source


class Scanning:
    """Takes lists of brief events of one file, in their order."""

    def __init__(self) -> None:
        self._columns = Columns()
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def take(self, events: Sequence[Any]) -> None:
        """Take a list of events. Raises NeedsDecimals where its times must be read exactly."""
        batch = self._columns.take(events)
        self._parts.append((batch.start_ns, batch.duration_ns, batch.kind, batch.pair, batch.lane))

    def timeline(self, source: Source, head: Mapping[str, Any], lost: Sequence[str]) -> Timeline:
        """Return the timeline. Raises InputError where the file has no events."""
        if not sum(len(part[0]) for part in self._parts):
            raise no_events(source, lost)
        starts, durations, kinds, pairs, lanes = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts.clear()
        builder = TimelineBuilder()
        name_of = np.array([builder.name(str(name)) for _, name in self._columns.pairs])
        used, lane_of = np.unique(lanes, return_inverse=True)
        lane_of = np.array([builder.lane(self._lane(number)) for number in used.tolist()])[lane_of]
        builder.extend(
            start_ns=starts, duration_ns=durations, kind=kinds, name=name_of[pairs], lane=lane_of,
            detail=np.full(len(starts), -1), link=np.zeros(len(starts)), sequence=np.full(len(starts), -1),
        )  # fmt: skip
        builder.lost += [*lost, *self._columns.lost()]
        return complete(builder.build(source=str(source.path), format=source.format), source, head)

    def _lane(self, number: int) -> Lane:
        process, thread = list(self._columns.places)[self._columns.place_of(number)]
        side = self._columns.side_of(number)
        return Lane(f"{thread}", str(process), side, 0 if side == "device" else -1)
