"""The page's script in a real browser, where one is installed: sorting, filtering, paging, hovering, opening."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from jumar.base.findings import Finding
from jumar.show import render_html
from jumar.show.blocks.page import Column, FindingList, LineChart, Page, Section, Series, Table, Verdict

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=500,900"),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

Drive = Callable[[Page, str], Any]


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Return a function that opens a page, runs JavaScript in it and returns the value of its `return`."""

    def run(page: Page, program: str) -> Any:
        probe = f"<pre id=result></pre><script>result.textContent = JSON.stringify((() => {{{program}}})())</script>"
        path = tmp_path / "page.html"
        path.write_text(render_html(page).replace("</body>", f"{probe}</body>"), encoding="utf-8")
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
        dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        match = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)
        assert match is not None, dom[-2000:]
        return json.loads(unescape(match[1]))

    return run


def page_with(*sections: Section) -> Page:
    return Page(title="t", verdict=Verdict(status="fine", headline="h"), actions=(), sections=sections)


ROWS = [(f"aten::op_{index}", float(index % 1000) + 0.125, None) for index in range(10_000)]
ROWS[3] = ("aten::nan", math.nan, True)
ROWS[5] = ("aten::none", None, False)
TABLE = Table(
    columns=(Column(title="Name", code=True), Column(title="Time", number=True, bar=True), Column(title="Ok")),
    rows=ROWS,
    marked=(7, 9_999),
)
HELPERS = """
const block = document.querySelector(".block.table");
const rows = () => [...block.querySelectorAll("tbody tr")];
const cells = (column, count) => rows().slice(0, count).map((row) => row.cells[column].textContent);
const range = () => block.querySelector(".range").textContent;
const field = block.querySelector("input");
const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
const sort = (column) => block.querySelectorAll(".sort")[column].click();
"""


def test_a_big_table_is_sorted_filtered_and_paged(drive: Drive) -> None:
    program = f"""{HELPERS}
    const seen = {{ first: [cells(0, 2), range()] }};
    sort(1); seen.down = [cells(1, 2), block.querySelectorAll("th")[1].getAttribute("aria-sort")];
    sort(1); seen.up = [cells(1, 2), block.querySelectorAll("th")[1].getAttribute("aria-sort")];
    block.querySelectorAll(".pager button")[1].click(); seen.next = range();
    type("OP_77 77.13"); seen.found = [range(), cells(0, 9)];
    type("no such row"); seen.none = range();
    type(""); const only = block.querySelector("input[type=checkbox]"); only.click();
    seen.marked = [cells(0, 9), block.querySelectorAll("tr.mark").length];
    return seen;"""
    seen = drive(page_with(Section(title="s", blocks=(TABLE,))), program)
    assert seen["first"] == [["aten::op_0", "aten::op_1"], "1–50 of 10,000"]
    assert seen["down"] == [["999.1", "999.1"], "descending"]
    assert seen["up"] == [["0.125", "0.125"], "ascending"]
    assert seen["next"] == "51–100 of 10,000"
    assert seen["found"] == ["1–1 of 1 found in 10,000", ["aten::op_77"]]
    assert seen["none"] == "no row matches"
    assert sorted(seen["marked"][0]) == ["aten::op_7", "aten::op_9999"]
    assert seen["marked"][1] == 2


def test_what_has_no_order_comes_last_in_both_directions(drive: Drive) -> None:
    rows = [("b", math.nan), ("a", None), ("c", 1.0), ("d", math.inf), ("e", -2.0)]
    table = Table(columns=(Column(title="Name"), Column(title="Time", number=True)), rows=rows)
    program = f"{HELPERS} sort(1); const down = cells(0, 5); sort(1); return [down, cells(0, 5)];"
    assert drive(page_with(Section(title="s", blocks=(table,))), program) == [list("dce" + "ba"), list("ecd" + "ba")]


def test_a_row_drawn_by_the_script_is_the_row_that_python_drew(drive: Drive) -> None:
    program = f"""{HELPERS}
    const text = () => block.querySelector("tbody").textContent.replace(/\\s/g, "");
    const before = text();
    type("aten");
    return [before, text(), block.querySelector("td.b").style.getPropertyValue("--w")];"""
    before, after, width = drive(page_with(Section(title="s", blocks=(TABLE,))), program)
    assert before == after
    assert width == "0.0%"


def test_hovering_a_chart_and_the_arrow_keys_show_the_values(drive: Drive) -> None:
    series = (Series(name="reference", x=[0, 1, 2], y=[3.0, 2.0, 1.0]), Series(name="npu", x=[0, 1], y=[3.0, math.nan]))
    chart = LineChart(title="Loss", x_label="step", y_label="loss", series=series)
    program = """
    const plot = document.querySelector(".plot"), tip = plot.querySelector(".tip"), box = plot.getBoundingClientRect();
    const hidden = tip.hidden;
    plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width * 0.52 }));
    const hovered = tip.innerText;
    plot.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
    return [hidden, hovered, tip.innerText];"""
    hidden, hovered, last = drive(page_with(Section(title="s", blocks=(chart,))), program)
    assert hidden is True
    assert hovered.split() == ["step", "1", "reference", "2", "npu", "NaN"]
    assert last.split() == ["step", "2", "reference", "1", "npu", "–"]


def test_a_severity_can_be_hidden_and_a_link_opens_a_collapsed_section(drive: Drive, findings: list[Finding]) -> None:
    page = page_with(
        Section(title="Findings", blocks=(FindingList(findings=findings),)),
        Section(title="More", blocks=(), collapsed=True),
    )
    program = """
    document.querySelector("button[data-severity=info]").click();
    location.hash = "#section-2"; dispatchEvent(new Event("hashchange"));
    const groups = [...document.querySelectorAll(".group")];
    return [groups.map((group) => group.hidden), document.getElementById("section-2").open];"""
    assert drive(page, program) == [[False, False, True], True]


def test_the_page_is_not_wider_than_a_phone_and_reports_no_error(drive: Drive, full_page: Page) -> None:
    program = "return [document.documentElement.scrollWidth <= innerWidth, document.documentElement.className];"
    assert drive(full_page, program) == [True, "scripted"]
