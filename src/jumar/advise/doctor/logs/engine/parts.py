"""`ScannedPart`: what a part of a log holds. `report_of`: the parts of a log put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.advise.doctor.logs.tracebacks import Traceback

Key = tuple[str, str]
"""What makes two errors of a file the same."""
MOST_LONG = 64
"""So many very long lines of a part are read where they may name an error."""
_MOST_LINES = 20
"""Different lines of one file that name an error and that nothing else explains."""


@dataclass(slots=True, kw_only=True)
class ScannedPart:
    """What a part of a file holds; `report_of` puts parts together."""

    path: Path
    rank: int | None
    num_lines: int = 0
    """Line ends."""
    has_open_end: bool = False
    """The last line has no end."""
    size_bytes: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    last_line: str = ""
    num_long: int = 0
    """Very long lines, or pieces of them, that were worth reading."""
    meetings: dict[str, datetime] = field(default_factory=dict)
    hits: dict[Key, Hit] = field(default_factory=dict)
    """Their lines are counted from the part's beginning; without a time where no line of the part tells one before."""
    restarts: list[int] = field(default_factory=list)
    """Lines in which a launcher says that it starts the run again, counted likewise."""


def report_of(parts: Sequence[ScannedPart]) -> FileReport:
    """Return the report of a file from its parts, in their order.

    An error without a time gets the last one above it in the file, else the first one of the file, its upper bound.
    """
    report = FileReport(path=parts[0].path, rank=parts[0].rank)
    hits: dict[Key, Hit] = {}
    for part in parts:
        for key, hit in part.hits.items():
            if key in hits:
                _count(hits[key], hit, report.num_lines)
            else:
                hits[key] = _moved(hit, report.num_lines, report.last_time)
        report.restarts += [line + report.num_lines for line in part.restarts]
        report.meetings |= part.meetings
        report.num_lines += part.num_lines
        report.size_bytes += part.size_bytes
        report.first_time = report.first_time or part.first_time
        report.last_time = part.last_time or report.last_time
        report.last_line = part.last_line or report.last_line
    report.num_lines += parts[-1].has_open_end
    unread = sum(max(0, part.num_long - MOST_LONG) for part in parts)
    if unread:
        report.notes.append(
            f"{unread} pieces of very long lines in {report.path} were not read, though they may name errors."
        )
    for hit in hits.values():
        hit.time = hit.time or report.first_time
    report.hits = sorted(_few(hits), key=lambda hit: hit.line)
    return report


def _count(known: Hit, hit: Hit, lines_before: int) -> None:
    known.count += hit.count
    known.ranks |= hit.ranks
    known.traceback = known.traceback or _traceback_moved(hit.traceback, lines_before)


def _moved(hit: Hit, lines_before: int, time: datetime | None) -> Hit:
    traceback = _traceback_moved(hit.traceback, lines_before)
    return replace(hit, line=hit.line + lines_before, time=hit.time or time, traceback=traceback)


def _traceback_moved(traceback: Traceback | None, lines: int) -> Traceback | None:
    if traceback is None or lines == 0:
        return traceback
    return replace(traceback, first_line=traceback.first_line + lines, last_line=traceback.last_line + lines)


def _few(hits: dict[Key, Hit]) -> list[Hit]:
    """Return the errors; of lines that only name one, and of tracebacks, the first ones."""
    kept = []
    left = {"words": _MOST_LINES, "traceback": 5 * _MOST_LINES}
    for (kind, _), hit in sorted(hits.items(), key=lambda item: item[1].line):
        if left.get(kind) == 0:
            continue
        if kind in left:
            left[kind] -= 1
        kept.append(hit)
    return kept
