"""`totals`: calls, time and own time by operator, in one pass over a file that holds no events in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jumar.timeline.model.events import Kind, Side, Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.reading import module_of, one_source
from jumar.timeline.tally import Row, Tally


@dataclass(frozen=True, slots=True)
class Total:
    """All events of one name and kind on one side."""

    name: str
    kind: Kind
    side: Side
    calls: int
    total_ns: int
    """The lengths of all calls; calls that run at one time count twice."""
    self_ns: int
    """The total without what ran inside on the same thread. Functions of Python count as inside of such only."""
    max_ns: int
    """The longest call."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What took how long in one source, the longest own time first."""

    rows: Sequence[Total]
    num_events: int
    lost: Sequence[str]
    """What could not be read, one sentence each."""

    def of(self, *kinds: Kind) -> tuple[Total, ...]:
        """Return the rows of these kinds."""
        return tuple(row for row in self.rows if row.kind in kinds)


def totals(source: Timeline | Source | Path | str, on_progress: OnProgress | None = None) -> Totals:
    """Return the totals of a timeline, or of a file or folder that holds one source.

    Formats that can stream are not read into a timeline first. Raises InputError as `read_timeline` does.
    """
    if isinstance(source, Timeline):
        return _of_timeline(source)
    chosen = one_source(source)
    module = module_of(chosen)
    tally = getattr(module, "tally", None)
    return _rows(*tally(chosen, on_progress)) if tally else _of_timeline(module.read(chosen, on_progress))


def _of_timeline(timeline: Timeline) -> Totals:
    events = timeline.events
    on_device = timeline.on("device")
    tally = Tally(piece=None)
    groups = events.name.astype(np.int64) * 2 + on_device
    tally.take(events.start_ns, events.duration_ns, groups, events.kind, events.lane.astype(np.int64))
    names: list[tuple[str, Side]] = [(name, side) for name in timeline.names for side in ("host", "device")]
    return _rows(tally.finished(), names, timeline.lost)


def _rows(sums: Iterable[Row], names: Sequence[tuple[str, Side]], lost: Sequence[str]) -> Totals:
    found: dict[tuple[str, Kind, Side], list[int]] = {}
    for group, kind, *numbers in sums:
        name, side = names[group]
        calls, total, own, longest = found.get((name, kind, side), (0, 0, 0, 0))
        found[name, kind, side] = [
            calls + numbers[0], total + numbers[1], own + numbers[2], max(longest, numbers[3]),
        ]  # fmt: skip
    rows = [Total(*key, *numbers) for key, numbers in found.items()]
    rows.sort(key=lambda row: (-row.self_ns, row.name))
    return Totals(rows, sum(row.calls for row in rows), tuple(lost))
