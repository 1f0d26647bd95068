"""`skew_of`: which nodes' clocks go wrong, by moments that all ranks print at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median

from jumar.advise.doctor.logs.engine.hits import FileReport
from jumar.base.text import counted, listing

_LEAST_SECONDS = 2.0
"""A smaller difference is none: ranks print a moment up to a second apart."""
_AGREE_SECONDS = 1.0
"""The moments of one log must give the same difference within so much, else it is not taken for its clock's."""
_LEAST_MOMENTS = 2
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How far the clocks are from the middle one."""

    shifts: Mapping[Path, timedelta] = field(default_factory=dict)
    """To be taken off the times of a log; only where several moments agree."""
    notes: tuple[str, ...] = ()


def skew_of(files: Sequence[FileReport]) -> Skew:
    """Compare the clocks of the logs."""
    moments: dict[str, dict[Path, float]] = defaultdict(dict)
    for report in files:
        for name, time in report.meetings.items():
            moments[name][report.path] = time.timestamp()
    differences: dict[Path, list[float]] = defaultdict(list)
    for times in moments.values():
        if len(times) > 1:
            middle = median(times.values())
            for path, time_s in times.items():
                differences[path].append(time_s - middle)
    wrong = {path: found for path, found in differences.items() if abs(median(found)) >= _LEAST_SECONDS}
    sure = {path: median(found) for path, found in wrong.items() if _is_sure(found)}
    notes = _notes(files, sure, "The order here takes that into account.")
    notes += _notes(
        files,
        {path: median(found) for path, found in wrong.items() if path not in sure},
        "That is not sure, and the order here is that of the times as printed.",
    )
    return Skew(shifts={path: timedelta(seconds=shift) for path, shift in sure.items()}, notes=tuple(notes))


def _is_sure(found: Sequence[float]) -> bool:
    return len(found) >= _LEAST_MOMENTS and max(found) - min(found) <= _AGREE_SECONDS


def _notes(files: Sequence[FileReport], shifts: Mapping[Path, float], then: str) -> list[str]:
    """Say whose clock goes how far before or behind; logs with the same difference are told together."""
    groups: dict[int, list[FileReport]] = defaultdict(list)
    for report in files:
        if report.path in shifts:
            groups[round(shifts[report.path])].append(report)
    notes = []
    for shift, reports in sorted(groups.items()):
        where = "before" if shift > 0 else "behind"
        names = listing([str(report.path) for report in reports], _MOST_NAMED)
        notes.append(
            f"The clock of {counted(len(reports), 'log')} ({names}) is about {counted(abs(shift), 'second')} {where} "
            f"the others', by lines that all ranks print at the same moment. {then}"
        )
    return notes
