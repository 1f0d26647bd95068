"""Tables of sums, which the vendor makes of the same events: read to check the events against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jumar.timeline.vendor.text import tables
from jumar.timeline.vendor.text.losses import Losses

Sums = dict[str, tuple[int, int]]
"""Name -> (number, nanoseconds in all)."""

OPERATORS: tables.Columns = {"name": ("OP Type",), "count": ("Count",), "time": ("Total Time",), "core": ("Core Type",)}
"""`op_statistic.csv`."""
CALLS: tables.Columns = {"name": ("API Name",), "count": ("Count",), "time": ("Time",), "level": ("Level",)}
"""`api_statistic.csv`."""
_RELATIVE, _ROUNDING_NS = 0.005, 1
"""Totals that differ by more than half a percent disagree; each event may be rounded by half a nanosecond."""


def sums(paths: Iterable[Path], columns: tables.Columns, losses: Losses) -> Sums:
    """Return number and time by name. Raises OSError."""
    found: Sums = {}
    for path in paths:
        for row in tables.rows(path, columns, ("name", "count", "time"), losses):
            count, time = row.integer("count"), row.ns("time")
            if count is None or time is None:
                losses.passed_over(path.name, "their number or time is no number")
                continue
            before = found.get(row.text("name"), (0, 0))
            found[row.text("name")] = (before[0] + count, before[1] + time)
    return found


def add(found: Sums, name: str, time_ns: int, number: int = 1) -> None:
    """Count one more of a name."""
    before = found.get(name, (0, 0))
    found[name] = (before[0] + number, before[1] + time_ns)


@dataclass(frozen=True, slots=True)
class Side:
    """One of two files that tell the same."""

    file: str
    sums: Mapping[str, tuple[int, int]]


def compare(events: Side, other: Side, what: str, losses: Losses) -> bool:
    """Say where two files disagree on numbers or times; return whether they agree. The first one is taken."""
    differing = [name for name in sorted({*events.sums, *other.sums}) if not _agree(events, other, name)]
    if not differing:
        return True
    first = differing[0]
    here, there = events.sums.get(first, (0, 0)), other.sums.get(first, (0, 0))
    others = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    losses.disagree(
        f"{events.file} and {other.file} disagree on {what} `{first}`{others}: "
        f"{here[0]} of {here[1] / 1000:.3f} us against {there[0]} of {there[1] / 1000:.3f} us; {events.file} is taken."
    )
    return False


def _agree(events: Side, other: Side, name: str) -> bool:
    (number, time), (other_number, other_time) = events.sums.get(name, (0, 0)), other.sums.get(name, (0, 0))
    allowed = max(_RELATIVE * max(time, other_time), _ROUNDING_NS * max(number, other_number, 1))
    return number == other_number and abs(time - other_time) <= allowed
