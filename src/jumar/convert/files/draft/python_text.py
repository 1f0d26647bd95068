"""Converts Python code inside another file, and returns the replacements in that file."""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding
from jumar.convert.files.draft.differences import differences
from jumar.convert.files.draft.drafting import Converted
from jumar.convert.files.draft.python_engine import convert_python
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.files.unreadable_file import RULE as UNREADABLE


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
