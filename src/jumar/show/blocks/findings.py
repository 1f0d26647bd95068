"""`finding_list`: a block of findings under the summaries of their rules; `status_of`: the verdict they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jumar.base.findings import Finding, Severity, worst
from jumar.base.rules import summaries
from jumar.show.blocks.page import FindingList, Status


def finding_list(findings: Sequence[Finding], empty: str = "Nothing found.") -> FindingList:
    """Return the block of `findings`; `empty` is the sentence where there are none."""
    known = summaries() if findings else {}
    codes = sorted({finding.code for finding in findings} & known.keys())
    return FindingList(findings=findings, empty=empty, titles={code: known[code] for code in codes})


def status_of(findings: Iterable[Finding]) -> Status:
    """Return `failed` for an error, `attention` for a warning, else `fine`."""
    severity = worst(findings) or Severity.INFO
    return "failed" if severity >= Severity.ERROR else "attention" if severity >= Severity.WARNING else "fine"
