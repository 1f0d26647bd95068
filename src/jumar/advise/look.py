"""`examine`: the bottlenecks of what a path holds: a recording of Jumar's, or the files of a profiler, all ranks."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumar.advise.bottlenecks import Advice, advise
from jumar.advise.bottlenecks.engine import in_order
from jumar.advise.checks import NotChecked
from jumar.advise.ranks import Ranks, judge_ranks
from jumar.advise.survey import Survey, Unread, one_a_rank, surveyed
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.errors import InputError
from jumar.base.text import counted, listing
from jumar.recording.documents import is_recording
from jumar.timeline.model.source import Source
from jumar.timeline.reading import find_sources

OnProgress = Callable[[int, int], None]
MOST_IN_FULL = 32
"""Ranks of which every rule looks at each. Of more, all are scanned and `SAMPLE` of them are read in full."""
SAMPLE = 8


@dataclass(frozen=True, slots=True)
class Examined:
    """What `examine` found."""

    advice: tuple[Advice, ...]
    """One for each rank that was read in full, the rank with the longest steps first, with all ranks' findings."""
    ranks: Ranks | None = None
    """What all ranks say together; None of a recording."""


def look(path: Path, **options: Any) -> tuple[Advice, ...]:
    """Return the advice of `examine`, which takes the same options."""
    return examine(path, **options).advice


def examine(
    path: Path,
    *,
    soc: str | None = None,
    rank: int | None = None,
    thresholds: Path | None = None,
    cluster: str | None = None,
    on_progress: OnProgress | None = None,
) -> Examined:
    """Return the bottlenecks of each rank, the rank with the longest steps first, with those of all ranks together.

    Of a recording that is one rank: `rank`, else the lowest. Of a profiler's files it is every rank, or `rank`. More
    than `MOST_IN_FULL` ranks are scanned: what the ranks say together is checked over all, and the rules about one rank
    on a sample. A rank that cannot be read is named as not checked. `cluster` (`local`, `ray://HOST:PORT`) reads the
    ranks on the machines of a Ray cluster, which must see the same path.
    Raises InputError where nothing is known there or the rank is absent, and what `advise` raises.
    """
    if is_recording(path):
        return Examined((advise(path, soc=soc, rank=rank, on_progress=on_progress),))
    limits = Thresholds.load(thresholds)
    sources = find_sources(path)
    asked = [source for source in sources if rank is None or source.rank in (rank, None)]
    read = functools.partial(surveyed, limits=limits, rank=rank, cluster=cluster)
    few = len(asked) <= MOST_IN_FULL
    found, unread = read(asked, in_full=few, on_progress=on_progress)
    found = one_a_rank(found)
    if not found:
        raise _nothing(path, sources, rank, unread)
    together = Ranks(
        decompositions=[one.parts for one in found], thresholds=limits,
        collectives=[one.collectives for one in found if one.collectives is not None],
        links=[link for one in found for link in one.links],
    )  # fmt: skip
    findings, gaps = judge_ranks(together)
    if not few:
        sample = _sample(found, {finding.evidence.get("rank") for finding in findings})
        found, _ = read(sample, in_full=True, on_progress=None)
        gaps = [*gaps, _sampled(found, len(asked))]
    first, *others = sorted((one.advice for one in found if one.advice is not None), key=_median_us, reverse=True)
    gaps = [*gaps, *(_unread(unread, len(asked)) if unread else [])]
    first = replace(first, findings=in_order([*findings, *first.findings]), not_checked=(*gaps, *first.not_checked))
    return Examined((first, *others), together)


def _nothing(path: Path, sources: Sequence[Source], rank: int | None, unread: Sequence[Unread]) -> InputError:
    if unread:
        return InputError(unread[0].reason)
    known = ", ".join(sorted({str(source.rank) for source in sources}))
    return InputError(f"{path} must have rank {rank}; it has {known}. Choose one of these with --rank.")


def _sample(found: Sequence[Survey], named: set[object]) -> list[Source]:
    """Return the ranks that are read in full: those that findings name, the slowest, the fastest, those between."""
    by_length = sorted(found, key=lambda one: -one.median_ns)
    spread = [by_length[round(at * (len(found) - 1) / (SAMPLE - 1))] for at in range(SAMPLE)]
    chosen = [*(one for one in found if one.parts.rank in named), *spread]
    return list({id(one): one.source for one in chosen}.values())[:SAMPLE]


def _sampled(found: Sequence[Survey], number: int) -> NotChecked:
    ranks = listing([str(rank) for rank in sorted(one.parts.rank for one in found)], SAMPLE)
    reason = (
        f"the rules about one rank looked at {len(found)} of {number:,} ranks ({ranks}): the slowest, the fastest, "
        "some between and those that findings name. --rank N looks at another one."
    )
    return NotChecked(code="", name="all ranks in full", reason=reason)


def _unread(unread: Sequence[Unread], number: int) -> list[NotChecked]:
    reasons = listing([one.reason for one in unread], 3)
    what = counted(len(unread), "source")
    return [NotChecked(code="", name="unread ranks", reason=f"{what} of {number:,} could not be read: {reasons}.")]


def _median_us(advice: Advice) -> float:
    return statistics.median(step.span_us for step in advice.steps) if advice.steps else 0.0
