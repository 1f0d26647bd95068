"""`Columns`: decoded events -> arrays of begin, length, name, kind and lane."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from jumar.timeline.chrome.clock import NO_TIME, nanoseconds
from jumar.timeline.chrome.kinds import kind_and_side
from jumar.timeline.model.events import Integers, Side

Key = TypeVar("Key", bound=Hashable)


class Numbering(dict[Key, int], Generic[Key]):
    """Numbers keys in the order of their first appearance."""

    def __missing__(self, key: Key) -> int:
        self[key] = number = len(self)
        return number


@dataclass(frozen=True, slots=True)
class Batch:
    """The events with a length among those of one decoded list."""

    start_ns: Integers
    """Absolute, in the file's clock."""
    duration_ns: Integers
    """At least 0."""
    pair: Integers
    """Number of category and name."""
    kind: npt.NDArray[np.uint8]
    lane: Integers
    """Number of process, thread and side."""
    events: Sequence[Any]
    """The decoded events, in the order of the arrays."""


class Columns:
    """Numbers names and lanes over all batches of a file, and pairs begin and end events."""

    def __init__(self) -> None:
        self.pairs: Numbering[tuple[str | None, Any]] = Numbering()
        """(category, name)"""
        self.places: Numbering[tuple[Any, Any]] = Numbering()
        """(process, thread)"""
        self._kinds = np.empty(0, np.uint8)
        self._on_device = np.empty(0, np.int64)
        self._begun: dict[tuple[Any, Any], list[Any]] = {}
        self._untimed = 0
        self._negative = 0
        self._unmatched = 0

    def take(self, events: Sequence[Any]) -> Batch:
        """Return the columns of a list of events. Raises NeedsDecimals where its times must be read exactly."""
        rows = [event for event in events if event.ph == "X"]
        starts, durations = nanoseconds([event.ts for event in rows]), nanoseconds([event.dur for event in rows])
        if len(rows) < len(events) and (pairs := self._closed(events)):
            begins, ends = nanoseconds([one.ts for one, _ in pairs]), nanoseconds([two.ts for _, two in pairs])
            rows += [one for one, _ in pairs]
            starts = np.concatenate((starts, begins))
            known = (begins != NO_TIME) & (ends != NO_TIME)
            durations = np.concatenate((durations, np.where(known, ends - np.where(known, begins, 0), NO_TIME)))
        good = (starts != NO_TIME) & (durations != NO_TIME)
        if not good.all():
            self._untimed += int((~good).sum())
            rows = [event for event, is_good in zip(rows, good, strict=True) if is_good]
            starts, durations = starts[good], durations[good]
        return self._batch(rows, starts, durations)

    def side_of(self, lane: int) -> Side:
        """Return the side of a lane of a batch."""
        return "device" if lane % 2 else "host"

    def place_of(self, lane: int) -> int:
        """Return the number of process and thread of a lane of a batch."""
        return lane // 2

    def lost(self) -> list[str]:
        """Return sentences about events that could not be used as they are."""
        open_ = sum(map(len, self._begun.values())) + self._unmatched
        return [
            sentence.format(number)
            for number, sentence in (
                (self._untimed, "{} events have no begin or no length that is a number, and were passed over"),
                (self._negative, "{} events have a negative length, which counts as 0"),
                (open_, "{} begin or end events (ph B, E) have no partner, and were passed over"),
            )
            if number
        ]

    def _batch(self, rows: Sequence[Any], starts: Integers, durations: Integers) -> Batch:
        pairs, places, size = self.pairs, self.places, len(rows)
        pair = np.fromiter([pairs[event.cat, event.name] for event in rows], np.int64, size)
        place = np.fromiter([places[event.pid, event.tid] for event in rows], np.int64, size)
        if len(pairs) > len(self._kinds):
            new = [kind_and_side(str(cat or ""), str(name)) for cat, name in list(pairs)[len(self._kinds) :]]
            self._kinds = np.append(self._kinds, np.array([kind for kind, _ in new], np.uint8))
            self._on_device = np.append(self._on_device, [side == "device" for _, side in new])
        negative = durations < 0
        self._negative += int(negative.sum())
        durations[negative] = 0
        return Batch(starts, durations, pair, self._kinds[pair], place * 2 + self._on_device[pair], rows)

    def _closed(self, events: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return (begin, end) of the events that end here."""
        found = []
        for event in events:
            if event.ph == "B":
                self._begun.setdefault((event.pid, event.tid), []).append(event)
            elif event.ph == "E":
                if begun := self._begun.get((event.pid, event.tid)):
                    found.append((begun.pop(), event))
                else:
                    self._unmatched += 1
        return found
