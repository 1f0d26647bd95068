"""`surveyed`: what each rank's files say, read one after the other, by a process a core, or on a Ray cluster."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.advise.bottlenecks import Advice
from jumar.advise.ranks.links import Link, links_of
from jumar.advise.timing import advise_timeline
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.errors import InputError
from jumar.base.host import usable_cores
from jumar.base.process.pool import Lost, run
from jumar.timeline.collectives import Collectives, collectives_of
from jumar.timeline.decompose import Decomposition, decompose
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.model.source import Source
from jumar.timeline.reading import read_timeline, scan_timeline

WORKER_BYTES = 8_000_000
"""A process of its own is worth starting for so many bytes of files."""
MAX_OPERATORS = 200
"""Rows that are kept of each rank where there are several: a thousand ranks must fit in memory."""
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is kept of one rank."""

    source: Source
    parts: Decomposition
    collectives: Collectives | None
    """None where the rank has no collectives."""
    links: Sequence[Link]
    advice: Advice | None
    """None where the rank was only scanned."""
    works: bool
    """Whether it has operators or kernels."""

    @property
    def median_ns(self) -> float:
        """The median length of a step."""
        return statistics.median(one.step.duration_ns for one in self.parts.steps) if self.parts.steps else 0.0


@dataclass(frozen=True, slots=True)
class Unread:
    """A source that could not be read, and why."""

    path: Path
    reason: str


def surveyed(
    sources: Sequence[Source],
    *,
    limits: Thresholds,
    rank: int | None,
    in_full: bool,
    cluster: str | None,
    on_progress: OnProgress | None,
) -> tuple[list[Survey], list[Unread]]:
    """Return what each source says, in their order, without those of other ranks than `rank`, and what was unread."""
    one = functools.partial(_surveyed, limits=limits, rank=rank, in_full=in_full, is_alone=len(sources) == 1)
    answers: dict[int, Survey | Unread | None] = {}
    for done, (index, answer) in enumerate(_each(one, sources, cluster), start=1):
        answers[index] = answer if not isinstance(answer, Lost) else Unread(sources[index].path, answer.reason)
        if on_progress is not None:
            on_progress(done, len(sources))
    ordered = [answers[index] for index in sorted(answers)]
    return [one for one in ordered if isinstance(one, Survey)], [one for one in ordered if isinstance(one, Unread)]


def one_a_rank(found: Sequence[Survey]) -> list[Survey]:
    """Leave out what holds no operator of a rank of which another source does: a profile on an NPU is in two places."""
    worked = {one.parts.rank for one in found if one.works}
    return [one for one in found if one.works or one.parts.rank not in worked]


def _surveyed(
    source: Source, limits: Thresholds, rank: int | None, in_full: bool, is_alone: bool
) -> Survey | Unread | None:
    """Return what one source says; None where its rank is another one than was asked for."""
    try:
        timeline = read_timeline(source) if in_full else scan_timeline(source)
    except InputError as error:
        return Unread(source.path, str(error))
    if rank not in (None, timeline.rank):
        return None
    parts = decompose(timeline)
    advice = advise_timeline(timeline, limits, parts) if in_full else None
    if advice is not None and not is_alone:
        advice = replace(advice, operators=advice.operators[:MAX_OPERATORS])
    return Survey(
        source=source, parts=parts, collectives=_collectives(timeline), links=links_of(timeline), advice=advice,
        works=bool(timeline.of(Kind.OPERATOR, Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE).any()),
    )  # fmt: skip


def _collectives(timeline: Timeline) -> Collectives | None:
    found = collectives_of(timeline)
    return found if len(found) else None


def _each(
    one: Callable[[Source], Survey | Unread | None], sources: Sequence[Source], cluster: str | None
) -> Iterable[tuple[int, Survey | Unread | Lost | None]]:
    """Yield the answers as they are done, with the numbers of their sources."""
    if cluster is not None:
        from jumar.base.outside.ray import on_cluster

        return on_cluster(one, sources, cluster)
    jobs = min(usable_cores(), len(sources), sum(source.size_bytes for source in sources) // WORKER_BYTES)
    if jobs < 2:
        return ((index, one(source)) for index, source in enumerate(sources))
    return run(one, sources, [[index] for index in range(len(sources))], jobs)
