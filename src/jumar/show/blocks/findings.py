"""`finding_list`: a block of findings, with the summaries of their rules as titles."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.base.findings import Finding
from jumar.base.rules import summaries
from jumar.show.blocks.page import FindingList


def finding_list(findings: Sequence[Finding], empty: str = "Nothing found.") -> FindingList:
    """Return the block of `findings`; `empty` is the sentence where there are none."""
    known = summaries() if findings else {}
    codes = sorted({finding.code for finding in findings} & known.keys())
    return FindingList(findings=findings, empty=empty, titles={code: known[code] for code in codes})
