"""Short ways to convert a file that is no Python source, and to look at what came of it."""

from __future__ import annotations

from textwrap import dedent

from jumar.base.findings import Finding
from jumar.convert.engine.file import convert_file
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ALONE, ProjectFacts


def outcome_of_file(
    text: str | bytes, name: str, *, target: str = "npu", unsafe: bool = False, project: ProjectFacts = ALONE
) -> Outcome:
    data = dedent(text).encode() if isinstance(text, str) else text
    options = ConvertOptions(target=target, unsafe=unsafe)  # type: ignore[arg-type]  # tests name both targets
    found = convert_file(data, name, options, project)
    assert found is not None, f"{name} is of no kind"
    return found


def converted_file(text: str, name: str, *, target: str = "npu", unsafe: bool = False) -> str:
    """The converted text; converting it again must change nothing."""
    after = outcome_of_file(text, name, target=target, unsafe=unsafe).after
    assert after == outcome_of_file(after, name, target=target, unsafe=unsafe).after
    return after.decode()


def file_findings(text: str, name: str, code: str, *, target: str = "npu") -> list[Finding]:
    return [each for each in outcome_of_file(text, name, target=target).findings if each.code == code]


def left_in_file(text: str, name: str, code: str, *, target: str = "npu") -> list[Finding]:
    return [each for each in file_findings(text, name, code, target=target) if not each.evidence.get("applied")]
