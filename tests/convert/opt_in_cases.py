"""Short ways to convert a snippet with opt-in rules and to look at what came of it."""

from __future__ import annotations

from textwrap import dedent

from jumar.base.findings import Finding
from jumar.base.rules import Rule
from jumar.convert import ConvertOptions, Skip, Success, convert_source
from jumar.convert.model.options import Target

IMPORT = "import torch_npu  # noqa: F401\n"


def outcome_with(source: str, *codes: str, target: Target = "npu") -> Success | Skip:
    found = convert_source(dedent(source), "a.py", ConvertOptions(enable=frozenset(codes), target=target))
    assert isinstance(found, Success | Skip), found
    return found


def converted_with(source: str, *codes: str, target: Target = "npu") -> str:
    """The converted snippet without the added import; a second conversion has changed nothing."""
    after = outcome_with(source, *codes, target=target).after.decode()
    again = convert_source(after, "a.py", ConvertOptions(enable=frozenset(codes), target=target))
    assert again.after.decode() == after
    return after.replace(IMPORT, "", 1)


def findings_with(source: str, code: str, *, target: Target = "npu") -> list[Finding]:
    return [finding for finding in outcome_with(source, code, target=target).findings if finding.code == code]


def unchanged_with(source: str, code: str, *, target: Target = "npu") -> list[Finding]:
    """The findings of a rule that left the snippet as it is."""
    found = outcome_with(source, code, target=target)
    assert found.after.decode() == dedent(source)
    return [finding for finding in found.findings if finding.code == code]


def page_block(rule: Rule, heading: str) -> str:
    """The code under a heading of a rule's page."""
    return rule.doc.split(f"## {heading}\n```python\n")[1].split("```", maxsplit=1)[0]
