"""The reports of a conversion: the list of changes, the workbook, the log, and their names."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.convert import Conversion, convert_source
from jumar.convert.reports.change_list import change_list
from jumar.convert.reports.log import log
from jumar.convert.reports.names import ReportNames, report_names
from jumar.convert.reports.unsupported import Unsupported, left_over, workbook
from jumar.convert.rules.order import rules_by_code


def rows_of(data: bytes) -> list[list[str]]:
    assert data.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def edit_finding(before: str, after: str, *, applied: bool = True) -> Finding:
    edit = Edit(path="a.py", start_line=1, end_line=1, before=before, after=after)
    evidence = {"applied": applied}
    where = Location(path="a.py", line=1, column=3)
    return Finding(code="JM101", severity=Severity.INFO, message="m", where=where, evidence=evidence, edit=edit)


def test_each_edit_that_was_made_is_one_row() -> None:
    source = "import torch\nimport torch_npu\nx.cuda()\nstate = torch.load('m')\ny = x.is_cuda\n"
    head, *rows = rows_of(change_list(convert_source(source, "a.py").findings))
    assert head == ["file", "line", "column", "rule", "type", "before", "after", "safety", "message"]
    assert [row[:8] for row in rows] == [
        ["a.py", "3", "3", "JM103", "MODIFY", "x.cuda()", "x.npu()", "safe"],
        ["a.py", "5", "7", rows[1][3], "MODIFY", "y = x.is_cuda", "y = x.is_npu", "safe"],
    ]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [("f(a)\n", "f(a, b)\n", "INSERT"), ("f(a, b)\n", "f(a)\n", "DELETE"), ("f(a)\n", "f(b)\n", "MODIFY")],
)
def test_the_type_of_a_change_is_that_of_its_text(before: str, after: str, kind: str) -> None:
    assert rows_of(change_list([edit_finding(before, after)]))[1][4] == kind


def test_quotes_commas_line_ends_and_other_scripts_come_back_from_the_list() -> None:
    text = 'a = "x, y",\n    "中文"\n'
    assert rows_of(change_list([edit_finding(text, f"{text}b\n")]))[1][5] == text.rstrip()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_no_text_of_the_list_is_computed(start: str) -> None:
    assert rows_of(change_list([edit_finding(f"{start}1+1", "x")]))[1][5] == f"'{start}1+1"


def test_an_edit_that_was_not_made_is_no_change() -> None:
    assert len(rows_of(change_list([edit_finding("a", "b", applied=False)]))) == 1


def sheet_of(rows: list[Unsupported], **about: str) -> Any:
    return openpyxl.load_workbook(io.BytesIO(workbook(rows, about or {"version": "1"})))


def test_the_workbook_has_the_worst_first_with_filters_and_a_fixed_head() -> None:
    rows = [
        Unsupported(name="b", status="fallback", file="x.py", line=2, reason="why", counterpart="c", source="s"),
        Unsupported(name="a", status="advice"),
        Unsupported(name="c", status="unsupported"),
    ]
    book = sheet_of(rows)
    sheet = book["Unsupported"]
    values = list(sheet.iter_rows(values_only=True))
    assert values[0][:4] == ("Operator or API", "Status", "File", "Line")
    assert [row[0] for row in values[1:]] == ["c", "b", "a"]
    assert values[2] == ("b", "fallback", "x.py", 2, "why", "c", "s")
    assert (sheet.auto_filter.ref, sheet.freeze_panes) == ("A1:G4", "A2")
    assert sheet["A1"].font.bold
    assert sheet.column_dimensions["E"].width == 70
    assert list(book["About"].iter_rows(values_only=True)) == [("version", "1")]


@pytest.mark.parametrize("text", ["=1+1", "=HYPERLINK(\"http://x\")", "+1", "@SUM(A1)", "-2"])  # fmt: skip
def test_nothing_in_the_workbook_is_computed(text: str) -> None:
    cell = sheet_of([Unsupported(name=text, status="error")])["Unsupported"]["A2"]
    assert (cell.value, cell.data_type) == (text, "s")


def test_a_workbook_takes_any_text() -> None:
    name = "a\x00b\x1b\ud800" + "x" * 50_000
    value = sheet_of([Unsupported(name=name, status="error")])["Unsupported"]["A2"].value
    assert value.startswith("a\ufffdb\ufffd\ufffdx")
    assert len(value) == 32_000


def test_what_a_conversion_left_becomes_rows() -> None:
    outcome = convert_source("import torch\nimport apex\nx.cuda()\nstate = torch.load('m')\n", "a.py")
    rows = left_over(outcome.findings)
    assert [(row.name, row.line, row.source) for row in rows] == [
        (rows[0].name, 2, rows[0].source),
        ("torch.load", 4, "JM112"),
    ]
    assert rows[0].name == "apex"


def test_the_log_says_what_was_asked_for_and_what_became_of_each_file() -> None:
    sources = {
        "a.py": "import torch\nx.cuda()\nstate = torch.load('m')\n",
        "old.py": "print 'cuda'\n",
        "b.py": "x = 1\n",
    }
    conversion = Conversion(
        Path("proj"), tuple(convert_source(text, path) for path, text in sources.items()), ("c.bin",)
    )
    text = log(conversion, {"target": "npu", "version": "0"}, rules_by_code().values(), ["Other reports: none."])
    assert "target   npu\nversion  0\n" in text
    assert "3 files read: 1 changed, 1 could not be read.\n1 other file copied.\n" in text
    assert "  JM103  tensor-cuda-method                    1      0\n" in text
    assert "  a.py: 2 edits\n" in text
    assert "    3:9       JM112 left (warning): `torch.load` without map_location" in text
    assert "old.py, line 1, column 1: it is not valid Python" in text
    assert "b.py" not in text
    assert text.endswith("\n\nOther reports: none.\n")


def test_reports_take_no_name_of_the_sources() -> None:
    assert report_names([]) == ReportNames()
    names = report_names(["Index.HTML", "jumar-index.html", "findings.json", "src"])
    assert (names.page, names.findings, names.log) == (
        "jumar-jumar-index.html",
        "jumar-findings.json",
        ReportNames().log,
    )
