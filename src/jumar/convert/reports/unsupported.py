"""`unsupported_op.xlsx`: operators and APIs that the NPU does not have or runs on the host, and what the conversion
left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jumar.base.findings import Finding, Severity
from jumar.convert.reports.spreadsheet import Sheet, workbook_bytes

_MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """One place that uses something the NPU does not have as it is."""

    name: str
    status: str
    """`unsupported`, `fallback` (to the host), `unverified`, or the severity of what a conversion left."""
    file: str = ""
    line: int | None = None
    reason: str = ""
    counterpart: str = ""
    """The NPU's name, or what to do instead."""
    source: str = ""
    """The table or rule that says so."""


_COLUMNS = {
    "name": ("Operator or API", 38),
    "status": ("Status", 13),
    "file": ("File", 36),
    "line": ("Line", 8),
    "reason": ("Reason", 70),
    "counterpart": ("Counterpart, or what to do", 60),
    "source": ("Source", 22),
}
"""Heading and width in characters of each field."""


def left_over(findings: Iterable[Finding]) -> list[Unsupported]:
    """Return what a conversion left and somebody must look at, as rows."""
    return [
        Unsupported(
            name=_subject(finding),
            status=finding.severity.label,
            file=finding.where.path or "",
            line=finding.where.line,
            reason=finding.message,
            counterpart=finding.action,
            source=finding.code,
        )
        for finding in findings
        if finding.severity >= Severity.ADVICE and not finding.evidence.get("applied")
    ]


def _subject(finding: Finding) -> str:
    """Return the first name that the message quotes, else its first word with a dot or capitals, else the file."""
    quoted = re.search(r"`([^`]+)`", finding.message)
    if quoted:
        return quoted[1]
    named = re.search(r"[A-Za-z_][\w.]*[._A-Z]\w+", finding.message)
    return named[0] if named else finding.where.path or finding.code


def workbook(rows: Sequence[Unsupported], about: Mapping[str, str]) -> bytes:
    """Return the rows, the worst first, as an Excel workbook, with a second sheet that says how they came about."""
    worst = sorted(rows, key=_rank)[:_MAX_ROWS]
    table = Sheet(
        name="Unsupported",
        head=[title for title, _ in _COLUMNS.values()],
        widths=[width for _, width in _COLUMNS.values()],
        rows=[[getattr(row, name) for name in _COLUMNS] for row in worst],
    )
    return workbook_bytes([table, Sheet(name="About", widths=(24, 100), rows=list(about.items()))])


_RANKS = ("unsupported", "error", "fallback", "warning", "unverified", "advice")


def _rank(row: Unsupported) -> tuple[int, str, str, int]:
    rank = _RANKS.index(row.status) if row.status in _RANKS else len(_RANKS)
    return rank, row.name, row.file, row.line or 0
