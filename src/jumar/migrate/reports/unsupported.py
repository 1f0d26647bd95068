"""`unsupported_op.xlsx`: operators and APIs that the NPU does not have, or leaves to the host, and what is left."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.findings import Finding, Severity

if TYPE_CHECKING:
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet

_MAX_CELL = 32_000
"""Characters a cell takes; Excel's own limit is 32,767."""
_MAX_ROWS = 1_000_000
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


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
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    table = book.create_sheet("Unsupported")
    _lay_out(table, [width for _, width in _COLUMNS.values()], num_rows=min(len(rows), _MAX_ROWS) + 1)
    table.append([_head(table, title) for title, _ in _COLUMNS.values()])
    for row in sorted(rows, key=_rank)[:_MAX_ROWS]:
        table.append([_plain(table, getattr(row, name), width) for name, (_, width) in _COLUMNS.items()])
    facts = book.create_sheet("About")
    facts.column_dimensions["A"].width, facts.column_dimensions["B"].width = 24, 100
    for name, text in about.items():
        facts.append([_head(facts, name), _plain(facts, text, 100)])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


_RANKS = ("unsupported", "error", "fallback", "warning", "unverified", "advice")


def _rank(row: Unsupported) -> tuple[int, str, str, int]:
    rank = _RANKS.index(row.status) if row.status in _RANKS else len(_RANKS)
    return rank, row.name, row.file, row.line or 0


def _lay_out(sheet: WriteOnlyWorksheet, widths: Sequence[int], num_rows: int) -> None:
    from openpyxl.utils import get_column_letter

    letters = [get_column_letter(index) for index in range(1, len(widths) + 1)]
    for letter, width in zip(letters, widths, strict=True):
        sheet.column_dimensions[letter].width = width
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:{letters[-1]}{num_rows}"


def _head(sheet: WriteOnlyWorksheet, text: str) -> Any:
    from openpyxl.styles import Font, PatternFill

    cell = _cell(sheet, text)
    cell.font = Font(bold=True, color="FFFFFF")
    cell.fill = PatternFill("solid", fgColor="1F3A5F")
    return cell


def _plain(sheet: WriteOnlyWorksheet, value: str | int | None, width: int) -> Any:
    """Return what to append for a value. Cells of their own are slow, so only texts that need one get one."""
    if isinstance(value, str) and (len(value) > width or value.startswith(("=", "#"))):
        return _cell(sheet, value)
    return _NO_TEXT.sub(_UNKNOWN, value) if isinstance(value, str) else value


def _cell(sheet: WriteOnlyWorksheet, value: str) -> Any:
    """Return a cell that shows its text, on several lines where it is long, and computes nothing."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Alignment

    cell = WriteOnlyCell(sheet, _NO_TEXT.sub(_UNKNOWN, value)[:_MAX_CELL])
    cell.data_type = "s"
    cell.alignment = Alignment(vertical="top", wrap_text=True)
    return cell
