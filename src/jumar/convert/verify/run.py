"""`verify` runs every rule of the proof on every changed file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from jumar.base.findings import Finding, Location
from jumar.base.host import usable_cores
from jumar.base.process.pool import Lost, run
from jumar.convert.engine.file import convert_file
from jumar.convert.engine.project import Conversion
from jumar.convert.facts.gathering import gather
from jumar.convert.facts.python import summarise
from jumar.convert.files import is_python
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome, Success
from jumar.convert.model.project import ALONE, ProjectFacts
from jumar.convert.verify.pair import Pair, pair_of
from jumar.convert.verify.rules import (
    changes_outside_edits,
    half_renamed,
    result_does_not_parse,
    undefined_name,
    unknown_npu_name,
)

RULES = (result_does_not_parse, undefined_name, unknown_npu_name, half_renamed, changes_outside_edits)
"""The rules, in the order they run."""

_WORKER_BYTES = 150_000
"""Changed sources that take a few times as long to check as a worker takes to start."""


def verify(conversion: Conversion, options: ConvertOptions | None = None, *, jobs: int | None = None) -> list[Finding]:
    """Return what is wrong with the changed files of a conversion: nothing, if the conversion is sound.

    `options` are those of the conversion; `jobs` bounds the processes (1: none but this one; None: as many as
    there are processors and work for). Imports neither PyTorch nor torch_npu and runs no code of the user.
    """
    options = options or ConvertOptions()
    changed = [outcome for outcome in conversion.changed if isinstance(outcome, Success)]
    work = functools.partial(verify_file, options=options, project=facts_after(conversion))
    found = _each(work, changed, usable_cores() if jobs is None else jobs)
    return [finding for findings in found for finding in findings]


def verify_file(outcome: Outcome, options: ConvertOptions, project: ProjectFacts = ALONE) -> list[Finding]:
    """Return what is wrong with one converted file; a pure function of values, so that workers can share the files."""
    if not isinstance(outcome, Success) or not outcome.changed:
        return []
    pair = pair_of(outcome, options.release)
    found = [finding for rule in RULES for finding in rule.find(pair)]
    return [*found, *_unstable(pair, options, project)]


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
    return changes_outside_edits.RULE.finding(
        f"it could not be checked: {lost.reason}",
        where=Location(path=outcome.path),
        action="Check this file by itself, with more memory.",
    )


def _unstable(pair: Pair, options: ConvertOptions, project: ProjectFacts) -> Iterator[Finding]:
    """Convert the result once more and report what that changes."""
    first = pair.outcome.after
    again = convert_file(first, pair.path, options, project)
    if again is None or again.after == first:
        return
    old, new = first.split(b"\n"), again.after.split(b"\n")
    line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)))
    codes = sorted({finding.code for finding in again.findings if finding.evidence.get("applied")})
    yield pair.finding(
        changes_outside_edits.RULE,
        f"a second conversion changes this line again ({', '.join(codes)})",
        line,
        rules=codes,
    )
