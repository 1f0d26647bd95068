"""The static proof of a conversion: every check on every changed file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jumar.findings import Finding
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Outcome, Success
from jumar.migrate.project import Conversion
from jumar.migrate.project_facts import ALONE, ProjectFacts
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


def verify(conversion: Conversion, options: ConvertOptions | None = None) -> list[Finding]:
    """Return what is wrong with the changed files of a conversion: nothing, if the conversion is sound.

    `options` are those of the conversion. Needs neither PyTorch nor torch_npu, runs nothing of the user's.
    """
    options = options or ConvertOptions()
    return [finding for outcome in conversion.changed for finding in verify_file(outcome, options)]


def verify_file(outcome: Outcome, options: ConvertOptions, project: ProjectFacts = ALONE) -> list[Finding]:
    """Return what is wrong with one converted file; a pure function of values, so that workers can share the files."""
    if not isinstance(outcome, Success) or not outcome.changed:
        return []
    pair = pair_of(outcome)
    found = [finding for check in CHECKS for finding in check(pair)]
    return [*found, *stable.check(pair, options, project)]
