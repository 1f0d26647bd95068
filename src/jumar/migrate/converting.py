"""The conversion of many files: read, gather what they know of each other, convert in parallel, remember.

A file is converted by itself; what it must know of the others is in `ProjectFacts`, gathered first. Both
steps are pure functions of bytes, so they run in worker processes where that pays, and their results
are cached where there are enough of them.
"""

from __future__ import annotations

import functools
import hashlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jumar.findings import Finding
from jumar.migrate.cache import (
    Cache,
    cache_folder,
    decode_outcome,
    encode_outcome,
    fingerprint,
    program_fingerprint,
)
from jumar.migrate.engine import convert_file, is_python, triggers
from jumar.migrate.facts_gathering import gather
from jumar.migrate.facts_python import Summary, summarise
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Failure, Outcome
from jumar.migrate.pool import Lost, run, usable_cpus
from jumar.migrate.project_facts import ProjectFacts
from jumar.migrate.rules.tree import conversion_defect
from jumar.migrate.walk import shown

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_CACHED_BYTES = 200_000
"""Smaller conversions take less than a second and leave nothing in the cache."""
_WORKER_BYTES = 400_000
"""Sources that take about as long to convert as a worker takes to start, four times over."""
_SUMMARY_WORKER_BYTES = 8_000_000
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
    store = Cache(cache_folder()) if cache and total >= _CACHED_BYTES else None
    jobs = usable_cpus() if jobs is None else max(1, jobs)
    summaries = _summaries(sources, store, jobs)
    facts, notes = gather(summaries, sources)
    found = dict(_outcomes(sources, summaries, options, facts, store, jobs, on_progress))
    if store is not None:
        store.prune()
    return {path: found[path] for path in sources}, notes


def _summaries(sources: Mapping[str, bytes], store: Cache | None, jobs: int) -> dict[str, Summary]:
    """Return the summary of every Python file; one entry of the cache holds those of a whole tree."""
    python = {path: data for path, data in sources.items() if is_python(path, data)}
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in python.items()} if store else {}
    key = fingerprint(program_fingerprint(), "summaries", sorted(python)) if store else ""
    kept = _kept_summaries(store.read(key)) if store is not None else {}
    found = {path: kept[digest] for path, digest in digests.items() if digest in kept}
    missing = [path for path in python if path not in found]
    results = _each(summarise, [python[path] for path in missing], jobs, _SUMMARY_WORKER_BYTES, len)
    for index, summary in results:
        found[missing[index]] = Summary(parses=False) if isinstance(summary, Lost) else summary
    if store is not None and missing:
        store.write(key, {digests[path]: summary.to_json() for path, summary in found.items()})
    return {path: found[path] for path in python}


def _kept_summaries(value: Any) -> dict[str, Summary]:
    try:
        return {digest: Summary.from_json(summary) for digest, summary in (value or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _outcomes(
    sources: Mapping[str, bytes],
    summaries: Mapping[str, Summary],
    options: ConvertOptions,
    facts: ProjectFacts,
    store: Cache | None,
    jobs: int,
    on_progress: Progress | None,
) -> Iterator[tuple[str, Outcome | None]]:
    """Yield (path, outcome) in the order in which they are done."""
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, len(sources))

    remembered = _Remembered(store, options, facts) if store is not None else None
    tasks: list[_Task] = []
    for path, data in sources.items():
        task = _Task(path, data, path in summaries and summaries[path].parses)
        if task.known_python and _is_quiet(task, options, facts):
            yield path, _convert(options, facts, task)
            advance()
        elif remembered is not None and (known := remembered.find(path, data)) is not None:
            yield path, known[0]
            advance()
        else:
            tasks.append(task)
    work = functools.partial(_convert, options, facts)
    for index, result in _each(work, tasks, jobs, _WORKER_BYTES, _task_bytes):
        task = tasks[index]
        outcome = _failure(task, result.reason) if isinstance(result, Lost) else result
        if remembered is not None and not isinstance(result, Lost):
            remembered.keep(task.path, task.data, outcome)
        yield task.path, outcome
        advance()


def _is_quiet(task: _Task, options: ConvertOptions, facts: ProjectFacts) -> bool:
    """Tell whether no rule can say anything of a file: handing it to a worker would cost more than converting it."""
    return not (triggers(options).may_concern(task.data, task.path, facts) or options.user_rules.concern(task.data))


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


class _Remembered:
    """Outcomes of earlier runs with the same program, options and facts."""

    def __init__(self, store: Cache, options: ConvertOptions, facts: ProjectFacts) -> None:
        self._store = store
        self._facts = facts
        self._base = fingerprint(program_fingerprint(), options, sorted(facts.exports), facts.words, facts.methods)

    def _key(self, path: str, data: bytes) -> str:
        return fingerprint(self._base, path, self._facts.of(path), hashlib.sha256(data).hexdigest())

    def find(self, path: str, data: bytes) -> tuple[Outcome | None] | None:
        """Return the outcome in a tuple, None where it is not known."""
        value = self._store.read(self._key(path, data))
        if value is None:
            return None
        if value == {}:
            return (None,)
        outcome = decode_outcome(value, path, data)
        return None if outcome is None else (outcome,)

    def keep(self, path: str, data: bytes, outcome: Outcome | None) -> None:
        """Keep an outcome that comes back equal from its JSON form, but no defect: it may be gone next time."""
        value = {} if outcome is None else encode_outcome(outcome)
        if outcome is not None and decode_outcome(value, path, data) != outcome:
            return
        if outcome is None or all(finding.code != conversion_defect.RULE.code for finding in outcome.findings):
            self._store.write(self._key(path, data), value)


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
