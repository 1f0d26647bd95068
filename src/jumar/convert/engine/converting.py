"""Converts many files: gathers the facts of the project, converts in parallel, and keeps results for the next run.

A file is converted by itself; what it must know of the others is in `ProjectFacts`, gathered first. Both
steps are pure functions of bytes, so they run in worker processes where that pays, and their results
are cached where there are enough of them.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from jumar.base.findings import Finding
from jumar.base.host import usable_cores
from jumar.base.process.pool import Lost, run
from jumar.convert.disk.cache import user_cache
from jumar.convert.disk.memory import Memory
from jumar.convert.disk.walk import shown
from jumar.convert.engine.file import convert_file, triggers, untouched
from jumar.convert.facts.framework import config_makers, framework_in, framework_of_rest, is_tensorflow_1
from jumar.convert.facts.gathering import gather
from jumar.convert.facts.python import Summary, summarise
from jumar.convert.files import is_python
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure, Outcome
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.tree import conversion_defect

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_CACHED_BYTES = 200_000
"""Smaller conversions take less than a second and leave nothing in the cache."""
_WORKER_BYTES = 400_000
"""Sources that take about as long to convert as a worker takes to start, four times over."""
_SUMMARY_WORKER_BYTES = 3_000_000
_BATCH_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class _Task:
    """One file to convert; `known_python` says that its syntax has been read before."""

    path: str
    data: bytes
    known_python: bool


def convert_all(
    sources: Mapping[str, bytes],
    options: ConvertOptions,
    *,
    jobs: int | None = None,
    cache: bool = True,
    on_progress: Progress | None = None,
) -> tuple[dict[str, Outcome | None], list[Finding]]:
    """Convert files given by their paths from the source root.

    Returns the outcome of each, in the same order (None for a file that holds nothing to convert), and
    findings about the project as a whole. `jobs` bounds the processes: 1 starts none, None takes as many
    as there are processors and work for them. A file on which Jumar itself fails stays as it was.
    """
    total = sum(map(len, sources.values()))
    kept = user_cache() if cache and total >= _CACHED_BYTES else None
    memory = None if kept is None else Memory(kept, sources, options)
    jobs = usable_cores() if jobs is None else max(1, jobs)
    summaries = _summaries(sources, memory, jobs)
    facts, notes = gather(summaries, sources)
    python = [sources[path] for path in summaries]
    facts = replace(
        facts,
        framework=framework_of_rest(python),
        tensorflow_1=is_tensorflow_1(python),
        session_configs=config_makers(python),
    )
    found: dict[str, Outcome | None] = {}
    for path, outcome in _outcomes(sources, summaries, options, facts, memory, jobs):
        found[path] = outcome
        if on_progress is not None:
            on_progress(len(found), len(sources))
    if memory is not None:
        memory.close()
    return {path: found[path] for path in sources}, notes


def _summaries(sources: Mapping[str, bytes], memory: Memory | None, jobs: int) -> dict[str, Summary]:
    """Return the summary of every Python file."""
    python = [path for path, data in sources.items() if is_python(path, data)]
    known = {path: memory.summary(path) for path in python} if memory is not None else {}
    found = {path: summary for path, summary in known.items() if summary is not None}
    missing = [path for path in python if path not in found]
    for index, result in _each(summarise, [sources[path] for path in missing], jobs, _SUMMARY_WORKER_BYTES, len):
        found[missing[index]] = Summary(parses=False) if isinstance(result, Lost) else result
    if memory is not None and missing:
        memory.keep_summaries(found)
    return {path: found[path] for path in python}


def _outcomes(
    sources: Mapping[str, bytes],
    summaries: Mapping[str, Summary],
    options: ConvertOptions,
    facts: ProjectFacts,
    memory: Memory | None,
    jobs: int,
) -> Iterator[tuple[str, Outcome | None]]:
    """Yield (path, outcome) in the order in which they are done."""
    tasks: list[_Task] = []
    for path, data in sources.items():
        parses = path in summaries and summaries[path].parses
        if parses and not facts.concerns(path, data) and _is_quiet(path, data, options, facts, memory):
            yield path, untouched(data, path)
        elif memory is not None and (known := memory.find(path, facts)) is not None:
            yield path, known[0]
        else:
            tasks.append(_Task(path, data, parses))
    work = functools.partial(_convert, options, facts)
    for index, result in _each(work, tasks, jobs, _WORKER_BYTES, _task_bytes):
        task = tasks[index]
        outcome = _failure(task, result.reason) if isinstance(result, Lost) else result
        if memory is not None:
            memory.keep(task.path, facts, outcome)
        yield task.path, outcome


def _is_quiet(path: str, data: bytes, options: ConvertOptions, facts: ProjectFacts, memory: Memory | None) -> bool:
    """Tell whether no word of a file makes any rule look at it."""
    if memory is not None and memory.is_quiet(path):
        return True
    framework = options.framework or framework_in(data) or facts.framework
    quiet = not (triggers(options, framework).may_concern(data) or options.user_rules.concern(data))
    if quiet and memory is not None:
        memory.keep_quiet(path)
    return quiet


def _task_bytes(task: _Task) -> int:
    return len(task.data)


def _convert(options: ConvertOptions, facts: ProjectFacts, task: _Task) -> Outcome | None:
    name = shown(task.path)
    try:
        outcome = convert_file(task.data, name, options, facts, known_python=task.known_python)
    except Exception as error:  # noqa: BLE001  # one file's defect must not cost the conversion of all others
        reason = f"{type(error).__name__} in Jumar ({error})"
        return _failure(task, reason, "".join(traceback.format_exception(error)))
    return outcome if outcome is None or name == task.path else replace(outcome, path=task.path)


def _failure(task: _Task, reason: str, trace: str = "") -> Failure:
    finding = conversion_defect.note(shown(task.path), reason, trace)
    return Failure(
        path=task.path, before=task.data, error=f"{shown(task.path)}: {reason}; report this.", findings=(finding,)
    )


def _each(
    function: Callable[[ItemT], ResultT],
    items: Sequence[ItemT],
    jobs: int,
    worker_bytes: int,
    size: Callable[[ItemT], int],
) -> Iterator[tuple[int, ResultT | Lost]]:
    """Yield (index, result) of every item: by workers where each has enough to do, else one after the other here."""
    jobs = min(jobs, sum(map(size, items)) // worker_bytes)
    if jobs > 1:
        yield from run(function, items, list(_batches([size(item) for item in items])), jobs)
        return
    for index, item in enumerate(items):
        yield index, function(item)


def _batches(sizes: Iterable[int]) -> Iterator[list[int]]:
    """Yield portions of consecutive indices; large items are portions of their own."""
    batch: list[int] = []
    filled = 0
    for index, size in enumerate(sizes):
        if batch and filled + size > _BATCH_BYTES:
            yield batch
            batch, filled = [], 0
        batch.append(index)
        filled += size
    if batch:
        yield batch
