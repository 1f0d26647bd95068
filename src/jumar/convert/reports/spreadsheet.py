"""Writes Excel workbooks of plain tables (ECMA-376, Office Open XML): `workbook_bytes` of `Sheet`s.

Texts are inline strings, so a cell shows its text and computes nothing.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

_MAX_CELL = 32_000
"""Characters a cell takes; Excel's own limit is 32,767."""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PLAIN, _TITLE, _LONG = range(3)
"""Positions in `cellXfs` of the styles: a value, a heading, a text on several lines."""
_STYLES = f"""{_HEAD}<styleSheet xmlns="{_MAIN}">
<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>
<font><b/><sz val="11"/><color rgb="FFFFFFFF"/><name val="Calibri"/></font></fonts>
<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>
<fill><patternFill patternType="solid"><fgColor rgb="FF1F3A5F"/></patternFill></fill></fills>
<borders count="1"><border/></borders>
<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>
<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>
<xf numFmtId="0" fontId="1" fillId="2" borderId="0" xfId="0" applyFont="1" applyFill="1"/>
<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0" applyAlignment="1">\
<alignment vertical="top" wrapText="1"/></xf></cellXfs>
<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>
</styleSheet>"""

Value = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table. `widths` are in characters; a longer text is shown on several lines."""

    name: str
    widths: Sequence[int]
    rows: Sequence[Sequence[Value]]
    head: Sequence[str] = ()
    """The titles of the columns. They stay in view and have filters. Without them, the first column holds titles."""


def workbook_bytes(sheets: Sequence[Sheet]) -> bytes:
    """Return a workbook (`.xlsx`) with these sheets; the same sheets always give the same bytes."""
    numbers = range(1, len(sheets) + 1)
    parts = {
        "[Content_Types].xml": _content_types(numbers),
        "_rels/.rels": _relations([("officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": _book(sheets),
        "xl/_rels/workbook.xml.rels": _relations(
            [*(("worksheet", f"worksheets/sheet{number}.xml") for number in numbers), ("styles", "styles.xml")]
        ),
        "xl/styles.xml": _STYLES,
        **{f"xl/worksheets/sheet{number}.xml": "".join(_sheet(sheet)) for number, sheet in enumerate(sheets, 1)},
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(zipfile.ZipInfo(name), text.encode(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _content_types(numbers: Iterable[int]) -> str:
    sheets = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{_TYPE}.worksheet+xml"/>'
        for number in numbers
    )
    return (
        f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}.styles+xml"/>{sheets}</Types>'
    )


def _relations(targets: Sequence[tuple[str, str]]) -> str:
    entries = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">{entries}</Relationships>'


def _book(sheets: Sequence[Sheet]) -> str:
    entries = "".join(
        f'<sheet name="{escape(sheet.name)}" sheetId="{number}" r:id="rId{number}"/>'
        for number, sheet in enumerate(sheets, 1)
    )
    return f'{_HEAD}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{entries}</sheets></workbook>'


def _sheet(sheet: Sheet) -> Iterator[str]:
    last = chr(ord("A") + len(sheet.widths) - 1)
    yield f'{_HEAD}<worksheet xmlns="{_MAIN}">'
    if sheet.head:
        yield '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" '
        yield 'state="frozen"/></sheetView></sheetViews>'
    columns = (
        f'<col min="{number}" max="{number}" width="{width}" customWidth="1"/>'
        for number, width in enumerate(sheet.widths, 1)
    )
    yield f"<cols>{''.join(columns)}</cols><sheetData>"
    if sheet.head:
        yield f"<row>{''.join(_cell(title, _TITLE) for title in sheet.head)}</row>"
    for row in sheet.rows:
        cells = [_cell(value, _style(value, width)) for value, width in zip(row, sheet.widths, strict=True)]
        if not sheet.head:
            cells[0] = _cell(row[0], _TITLE)
        yield f"<row>{''.join(cells)}</row>"
    yield "</sheetData>"
    if sheet.head:
        yield f'<autoFilter ref="A1:{last}{len(sheet.rows) + 1}"/>'
    yield "</worksheet>"


def _style(value: Value, width: int) -> int:
    return _LONG if isinstance(value, str) and len(value) > width else _PLAIN


def _cell(value: Value, style: int) -> str:
    if value is None or value == "":
        return "<c/>"
    if isinstance(value, int):
        return f'<c s="{style}"><v>{value}</v></c>'
    text = escape(_NO_TEXT.sub(_UNKNOWN, value)[:_MAX_CELL], quote=False).replace("\r", "&#13;")
    return f'<c s="{style}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
