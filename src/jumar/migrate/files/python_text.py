"""Python code inside another file: converted by the engine for Python sources, as replacements of that file."""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Finding
from jumar.migrate.edits import Proposal, Replacement
from jumar.migrate.facts.project import ProjectFacts
from jumar.migrate.files.differences import differences
from jumar.migrate.files.drafting import Converted
from jumar.migrate.files.python_engine import convert_python
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Failure
from jumar.migrate.rules.files.unreadable_file import RULE as UNREADABLE


def python_proposals(
    code: str, offset: int, options: ConvertOptions, project: ProjectFacts
) -> Iterator[Proposal | Converted]:
    """Yield what the engine makes of `code`, which stands at `offset` of a text."""
    outcome = convert_python(code, "", options, project)
    if isinstance(outcome, Failure):
        yield Proposal(
            rule=UNREADABLE, span=(offset, offset + len(code)), action="Convert it by hand.",
            message=f"The Python code could not be read{_reason(outcome.findings)}",
        )  # fmt: skip
        return
    edits = differences(code, outcome.after.decode()) if outcome.changed else ()
    moved = tuple(Replacement(edit.start + offset, edit.end + offset, edit.text) for edit in edits)
    if moved or outcome.findings:
        yield Converted(offset=offset, findings=outcome.findings, replacements=moved)


def _reason(findings: tuple[Finding, ...]) -> str:
    return f": {findings[0].message.split(': ', 1)[-1]}" if findings else "."
