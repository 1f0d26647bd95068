"""Short ways to convert a snippet and to look at what came of it."""

from __future__ import annotations

from textwrap import dedent

from jumar.findings import Finding
from jumar.migrate import ConvertOptions, Success, convert_source

IMPORT = "import torch_npu  # noqa: F401\n"


def outcome(source: str, *, unsafe: bool = False) -> Success:
    found = convert_source(dedent(source), "a.py", ConvertOptions(unsafe=unsafe))
    assert isinstance(found, Success), found
    return found


def converted(source: str, *, unsafe: bool = False) -> str:
    """The converted snippet, without the added import (which has its own tests)."""
    return outcome(source, unsafe=unsafe).after.decode().replace(IMPORT, "", 1)


def findings(source: str, code: str, *, unsafe: bool = False) -> list[Finding]:
    return [finding for finding in outcome(source, unsafe=unsafe).findings if finding.code == code]


def left(source: str, code: str) -> list[Finding]:
    """Findings of a rule that changed nothing."""
    return [finding for finding in findings(source, code) if not finding.evidence.get("applied")]
