"""`change_list.csv`: one row for each edit, for spreadsheets."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable

from jumar.base.findings import Edit, Finding

HEAD = ("file", "line", "column", "rule", "type", "before", "after", "safety", "message")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def change_list(findings: Iterable[Finding]) -> bytes:
    """Return the edits that were made as CSV: UTF-8 with a byte-order mark, by which Excel knows the encoding.

    `before` and `after` are whole lines; `type` is INSERT, DELETE or MODIFY. A text that a spreadsheet would
    compute has an apostrophe in front.
    """
    out = io.StringIO(newline="")
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(HEAD)
    for finding in findings:
        if finding.edit is not None and finding.evidence.get("applied"):
            rows.writerow([_safe(cell) for cell in _row(finding, finding.edit)])
    return codecs.BOM_UTF8 + out.getvalue().encode("utf-8", "backslashreplace")


def _row(finding: Finding, edit: Edit) -> tuple[object, ...]:
    where = finding.where
    before, after = edit.before.rstrip("\r\n"), edit.after.rstrip("\r\n")
    kind = change_type(edit)
    return where.path, where.line, where.column, finding.code, kind, before, after, edit.safety, finding.message


def change_type(edit: Edit) -> str:
    """Return INSERT when an edit adds text in one place, DELETE when it takes some away in one, else MODIFY."""
    before, after = edit.before, edit.after
    pairs = zip(before, after, strict=False)
    shared = next((at for at, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))
    before, after = before[shared:], after[shared:]
    if after.endswith(before):
        return "INSERT"
    return "DELETE" if before.endswith(after) else "MODIFY"


def _safe(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
