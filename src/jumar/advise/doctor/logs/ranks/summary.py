"""`summary_of`: what happened on all ranks of a job, put together by error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Protocol

from jumar.advise.doctor.entries import Role
from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.base.findings import Finding, Severity

_LEAST_RANKS = 4
"""Fewer ranks fit one screen without a summary."""


class RankedIncident(Protocol):
    """What is asked of an incident."""

    @property
    def lead(self) -> Hit:
        """The error that it is named after."""

    @property
    def finding(self) -> Finding:
        """What is said of it."""

    @property
    def severity(self) -> Severity:
        """The lead's severity."""

    @property
    def role(self) -> Role:
        """The lead's role."""

    @property
    def time(self) -> datetime | None:
        """When it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """One error on all ranks that have it."""

    first: RankedIncident
    """The earliest of them."""
    ranks: tuple[int, ...]
    num_files: int
    num_lines: int
    """How many lines hold it, over all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentRank:
    """A rank whose logs hold no error."""

    rank: int
    path: Path
    last_time: datetime | None
    last_line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSummary:
    """A job's ranks, by what their logs say."""

    num_ranks: int
    """With a log of their own."""
    num_files: int
    groups: tuple[RankGroup, ...]
    """In the order of their first incidents."""
    silent: tuple[SilentRank, ...]
    """Those whose logs end first come first: they hung or were killed before the others noticed."""
    missing: tuple[int, ...]
    """Ranks below the highest one that have no log."""


def summary_of(files: Sequence[FileReport], incidents: Sequence[RankedIncident]) -> RankSummary | None:
    """Return the summary; None for the logs of a few ranks. `incidents` are in their order."""
    by_rank: dict[int, list[FileReport]] = defaultdict(list)
    for report in files:
        if report.rank is not None and not report.is_unread:
            by_rank[report.rank].append(report)
    if len(by_rank) < _LEAST_RANKS:
        return None
    failed = {incident.finding.where.rank for incident in incidents if incident.severity is Severity.ERROR} | {
        incident.lead.rank for incident in incidents if incident.severity is Severity.ERROR
    }
    silent = [_silent(rank, reports) for rank, reports in by_rank.items() if rank not in failed]
    return RankSummary(
        num_ranks=len(by_rank),
        num_files=len(files),
        groups=tuple(_groups(incidents)),
        silent=tuple(sorted(silent, key=_ended)) if failed else (),
        missing=tuple(sorted(set(range(max(by_rank))) - by_rank.keys())),
    )


def ranges_text(numbers: Iterable[int]) -> str:
    """Return `0-511,513` for the numbers."""
    found = []
    for _, part in groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in part]
        found.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(found)


def _groups(incidents: Sequence[RankedIncident]) -> list[RankGroup]:
    found: dict[tuple[str, str], list[RankedIncident]] = {}
    for incident in incidents:
        found.setdefault(_kind(incident), []).append(incident)
    return [
        RankGroup(
            first=group[0],
            ranks=tuple(sorted({rank for one in group if (rank := one.finding.where.rank) is not None})),
            num_files=len({one.lead.path for one in group}),
            num_lines=sum(one.lead.count for one in group),
        )
        for group in found.values()
    ]


def _kind(incident: RankedIncident) -> tuple[str, str]:
    """Return what makes two incidents the same error: numbers in a message (a rank, an address) do not count."""
    signature = incident.lead.signature
    text = signature.name if signature is not None else incident.finding.message
    return incident.finding.code, "".join("0" if letter.isdigit() else letter for letter in text)


def _silent(rank: int, reports: Sequence[FileReport]) -> SilentRank:
    last = max(reports, key=lambda report: report.last_time or datetime.min)
    return SilentRank(rank=rank, path=last.path, last_time=last.last_time, last_line=last.last_line)


def _ended(rank: SilentRank) -> tuple[bool, datetime, int]:
    return rank.last_time is None, rank.last_time or datetime.min, rank.rank
