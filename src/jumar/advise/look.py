"""`look`: the bottlenecks of whatever a path holds: a recording of Jumar's, or the files of a profiler, all ranks."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jumar.advise.bottlenecks import Advice, advise
from jumar.advise.bottlenecks.engine import in_order
from jumar.advise.ranks import judge_ranks
from jumar.advise.timing import advise_timeline
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.errors import InputError
from jumar.base.host import usable_cores
from jumar.base.process.pool import Lost, run
from jumar.recording.documents import is_recording
from jumar.timeline.decompose import Decomposition, decompose
from jumar.timeline.model.source import Source
from jumar.timeline.reading import find_sources, read_timeline

OnProgress = Callable[[int, int], None]


def look(
    path: Path,
    *,
    soc: str | None = None,
    rank: int | None = None,
    thresholds: Path | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Advice, ...]:
    """Return the bottlenecks of each rank, the rank with the longest steps first, with those of all ranks together.

    Of a recording that is one rank: `rank`, else the lowest. Of a profiler's files it is every rank, or `rank`.
    Raises InputError where nothing is known there or the rank is absent, and what `advise` raises.
    """
    if is_recording(path):
        return (advise(path, soc=soc, rank=rank, on_progress=on_progress),)
    limits = Thresholds.load(thresholds)
    judge = functools.partial(_judged, limits=limits, rank=rank)
    sources = find_sources(path)
    asked = [source for source in sources if rank is None or source.rank in (rank, None)]
    judged = _one_a_rank([one for one in _each(judge, asked, on_progress) if one is not None])
    if not judged:
        known = ", ".join(sorted({str(source.rank) for source in sources}))
        raise InputError(f"{path} must have rank {rank}; it has {known}. Choose one of these with --rank.")
    findings, gaps = judge_ranks([parts for _, parts in judged], limits)
    first, *others = sorted((advice for advice, _ in judged), key=_median_us, reverse=True)
    together = replace(first, findings=in_order([*findings, *first.findings]), not_checked=(*gaps, *first.not_checked))
    return (together, *others)


_Judged = tuple[Advice, Decomposition]
_WORKER_BYTES = 8_000_000
"""A process of its own is worth starting for so many bytes of files."""
MAX_OPERATORS = 200
"""Rows that are kept of each rank where there are several: a thousand ranks must fit in memory."""


def _judged(source: Source, limits: Thresholds, rank: int | None) -> _Judged | None:
    """Return what one source says; None where its rank is another one than was asked for."""
    timeline = read_timeline(source)
    if rank not in (None, timeline.rank):
        return None
    parts = decompose(timeline)
    return advise_timeline(timeline, limits, parts), parts


def _one_a_rank(judged: Sequence[_Judged]) -> list[_Judged]:
    """Leave out what holds no operator of a rank of which another source does: a profile on an NPU is in two places."""
    worked = {advice.rank for advice, _ in judged if advice.operators}
    return [one for one in judged if one[0].operators or one[0].rank not in worked]


def _cut(judged: _Judged | None) -> _Judged | None:
    if judged is None:
        return None
    advice, parts = judged
    return replace(advice, operators=advice.operators[:MAX_OPERATORS]), parts


def _each(
    judge: Callable[[Source], _Judged | None], sources: Sequence[Source], on_progress: OnProgress | None
) -> Iterator[_Judged | None]:
    """Yield what each source says, in their order: one after the other, or by a process a core."""
    size = sum(source.size_bytes for source in sources)
    jobs = min(usable_cores(), len(sources), size // _WORKER_BYTES)
    if jobs < 2:
        found: Iterable[tuple[int, _Judged | Lost | None]] = ((i, judge(source)) for i, source in enumerate(sources))
    else:
        found = run(judge, sources, [[i] for i in range(len(sources))], jobs)
    answers: dict[int, _Judged | None] = {}
    for done, (index, answer) in enumerate(found, start=1):
        if isinstance(answer, Lost):
            raise InputError(f"{sources[index].path} could not be read: {answer.reason}. Read fewer ranks at a time.")
        answers[index] = _cut(answer) if len(sources) > 1 else answer
        if on_progress is not None:
            on_progress(done, len(sources))
    yield from (answers[index] for index in sorted(answers))


def _median_us(advice: Advice) -> float:
    return statistics.median(step.span_us for step in advice.steps) if advice.steps else 0.0
