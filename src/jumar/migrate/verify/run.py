"""The static proof of a conversion: every check on every changed file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from jumar.findings import Finding, Location
from jumar.migrate.engine import is_python
from jumar.migrate.facts.gathering import gather
from jumar.migrate.facts.project import ALONE, ProjectFacts
from jumar.migrate.facts.python import summarise
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Outcome, Success
from jumar.migrate.pool import Lost, run, usable_cpus
from jumar.migrate.project import Conversion
from jumar.migrate.rules.proof import CHANGES_OUTSIDE_EDITS
from jumar.migrate.verify import emitted, halves, parsing, reach, record, stable, undefined
from jumar.migrate.verify.model import Pair, pair_of

CHECKS: tuple[Callable[[Pair], Iterator[Finding]], ...] = (
    parsing.check,
    undefined.check,
    reach.check,
    emitted.check,
    halves.check,
    record.check,
)

_WORKER_BYTES = 150_000
"""Changed sources that take a few times as long to check as a worker takes to start."""


def verify(conversion: Conversion, options: ConvertOptions | None = None, *, jobs: int | None = None) -> list[Finding]:
    """Return what is wrong with the changed files of a conversion: nothing, if the conversion is sound.

    `options` are those of the conversion; `jobs` bounds the processes (1: none but this one; None: as many as
    there are processors and work for). Needs neither PyTorch nor torch_npu, runs nothing of the user's.
    """
    options = options or ConvertOptions()
    changed = [outcome for outcome in conversion.changed if isinstance(outcome, Success)]
    work = functools.partial(verify_file, options=options, project=facts_after(conversion))
    found = _each(work, changed, usable_cpus() if jobs is None else jobs)
    return [finding for findings in found for finding in findings]


def verify_file(outcome: Outcome, options: ConvertOptions, project: ProjectFacts = ALONE) -> list[Finding]:
    """Return what is wrong with one converted file; a pure function of values, so that workers can share the files."""
    if not isinstance(outcome, Success) or not outcome.changed:
        return []
    pair = pair_of(outcome)
    found = [finding for check in CHECKS for finding in check(pair)]
    return [*found, *stable.check(pair, options, project)]


def facts_after(conversion: Conversion) -> ProjectFacts:
    """Return what the converted files know of each other: a second conversion starts from them."""
    sources = {outcome.path: outcome.after for outcome in conversion.files}
    python = {path: summarise(data) for path, data in sources.items() if is_python(path, data)}
    return gather(python, sources)[0]


def _each(work: Callable[[Success], list[Finding]], changed: Sequence[Success], jobs: int) -> Iterator[list[Finding]]:
    jobs = min(jobs, sum(len(outcome.after) for outcome in changed) // _WORKER_BYTES)
    if jobs <= 1:
        yield from map(work, changed)
        return
    batches = [[index] for index in range(len(changed))]
    results = dict(run(work, changed, batches, jobs))
    for index, outcome in enumerate(changed):
        result = results[index]
        yield [_unchecked(outcome, result)] if isinstance(result, Lost) else result


def _unchecked(outcome: Success, lost: Lost) -> Finding:
    return CHANGES_OUTSIDE_EDITS.finding(
        f"it could not be checked: {lost.reason}",
        where=Location(path=outcome.path),
        action="Check this file by itself, with more memory.",
    )
