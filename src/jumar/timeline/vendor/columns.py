"""`EventColumns`: events of one rank before their links are known, and the details that they share."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Detail, Kind, Lane

_Item = TypeVar("_Item")
More = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class EventColumns:
    """Events in the order in which they were found; absolute nanoseconds."""

    builder: TimelineBuilder
    start_ns: array[int] = field(default_factory=lambda: array("q"))
    duration_ns: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("B"))
    name: array[int] = field(default_factory=lambda: array("i"))
    lane: array[int] = field(default_factory=lambda: array("i"))
    detail: array[int] = field(default_factory=lambda: array("i"))
    link: array[int] = field(default_factory=lambda: array("q"))
    sequence: array[int] = field(default_factory=lambda: array("q"))
    names: list[str] = field(default_factory=list)
    """Names by their index."""
    lanes: list[Lane] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    _pairs: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)

    def add(
        self, start_ns: int, duration_ns: int, kind: Kind, name: str, lane: Lane, *,
        detail: Detail | None = None, link: int = 0, sequence: int = -1,
    ) -> int:  # fmt: skip
        """Take one event and return its row."""
        self.start_ns.append(start_ns)
        self.duration_ns.append(max(duration_ns, 0))
        self.kind.append(int(kind))
        self.name.append(_known(self.names, self.builder.name(name), name))
        self.lane.append(_known(self.lanes, self.builder.lane(lane), lane))
        self.detail.append(-1 if detail is None else _known(self.details, self.builder.detail(detail), detail))
        self.link.append(link)
        self.sequence.append(sequence)
        return len(self.start_ns) - 1

    def more(self, pairs: list[tuple[str, str]]) -> More:
        """Return further fields of an event; equal ones are kept once."""
        return tuple(self._pairs.setdefault(pair, pair) for pair in pairs)

    def set_detail(self, row: int, detail: Detail) -> None:
        """Give an event its detail."""
        self.detail[row] = _known(self.details, self.builder.detail(detail), detail)

    def detail_of(self, row: int) -> Detail:
        """Return what is known of an event; an empty detail where nothing is."""
        return self.details[self.detail[row]] if self.detail[row] >= 0 else Detail()

    def deliver(self) -> None:
        """Hand every event to the builder."""
        names = ("start_ns", "duration_ns", "kind", "name", "lane", "detail", "link", "sequence")
        self.builder.extend(**{name: np.array(getattr(self, name)) for name in names})


def _known(items: list[_Item], index: int, item: _Item) -> int:
    """Note an item under the builder's index for it."""
    if index == len(items):
        items.append(item)
    return index
