from __future__ import annotations

import math
import re

import pytest

from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.show.blocks.page import BarChart, Column, FindingList, Heat, LineChart, Series, Table
from jumar.show.views.bars import bar_chart_view
from jumar.show.views.diffs import diff_view, edit_lines
from jumar.show.views.findings import finding_list_view, readable_name
from jumar.show.views.heat import HeatNode, heat_view
from jumar.show.views.lines import line_chart_view, summary
from jumar.show.views.prose import paragraphs
from jumar.show.views.tables import table_view


def chart(*series: Series, log_y: bool = False) -> LineChart:
    return LineChart(title="Loss", x_label="step", y_label="loss", series=series, log_y=log_y)


def num_strokes(path: str) -> int:
    return path.count("M")


# Line charts


def test_a_none_interrupts_the_line() -> None:
    view = line_chart_view(chart(Series(name="a", x=range(5), y=[1, 2, None, 4, 5])), "c")
    assert num_strokes(view.lines[0].path) == 2


def test_a_single_point_is_a_dot() -> None:
    view = line_chart_view(chart(Series(name="a", x=[3], y=[7.0])), "c")
    assert (view.lines[0].path, view.lines[0].dots) == ("", "M500.0 500.0h0")


def test_a_point_between_gaps_is_a_dot_even_on_a_long_line() -> None:
    y = [1.0] * 100
    view = line_chart_view(chart(Series(name="a", x=range(103), y=[*y, None, 5.0, None])), "c")
    assert num_strokes(view.lines[0].dots) == 1


def test_equal_series_have_different_dashes_and_the_legend_says_that_they_are_equal() -> None:
    values = [2.0, math.nan, 1.0]
    view = line_chart_view(
        chart(Series(name="reference", x=range(3), y=values), Series(name="npu", x=range(3), y=list(values))), "c"
    )
    assert [line.style for line in view.lines] == [0, 1]
    assert view.lines[1].note == "2 → 1 over 3 points; the same values as reference"


def test_nan_and_inf_are_named_where_they_are() -> None:
    y = [1.0, math.nan, math.nan, 2.0, math.inf]
    view = line_chart_view(chart(Series(name="npu", x=range(5), y=y)), "c")
    assert [gap.title for gap in view.gaps] == ["npu: NaN at 1 to 2", "npu: Inf at 4"]


def test_a_log_axis_names_values_it_cannot_show() -> None:
    view = line_chart_view(chart(Series(name="d", x=range(3), y=[0.0, 1e-6, 1e-3]), log_y=True), "c")
    assert [gap.label for gap in view.gaps] == ["≤ 0"]
    assert view.y_label == "loss (log scale)"


def test_a_log_axis_without_a_positive_value_falls_back_to_a_linear_one() -> None:
    view = line_chart_view(chart(Series(name="d", x=range(2), y=[0.0, 0.0]), log_y=True), "c")
    assert (view.y_label, view.gaps) == ("loss", [])


@pytest.mark.parametrize("y", [[], [None, None], [math.nan, math.inf]], ids=["none", "gaps", "nan"])
def test_a_series_without_a_number_draws_nothing(y: list[float | None]) -> None:
    view = line_chart_view(chart(Series(name="a", x=range(len(y)), y=y)), "c")
    assert (view.lines[0].path, view.lines[0].dots) == ("", "")


def test_a_long_line_is_thinned_and_keeps_its_peaks() -> None:
    y = [0.0] * 100_000
    y[54_321] = 9.0
    view = line_chart_view(chart(Series(name="a", x=range(100_000), y=y)), "c")
    heights = [float(height) for height in re.findall(r"[\d.]+ ([\d.]+)", view.lines[0].path)]
    assert len(heights) <= 2000
    assert min(heights) < 200  # the peak is near the top


def test_the_numbers_join_the_series_on_x() -> None:
    view = line_chart_view(chart(Series(name="a", x=[1, 0], y=[11, 10]), Series(name="b", x=[1, 2], y=[21, 22])), "c")
    assert view.table is not None
    assert view.table.data["rows"] == [[0, 10, None], [1, 11, 21], [2, None, 22]]


def test_a_series_in_words() -> None:
    assert summary(Series(name="a", x=[1, 0], y=[1.8707, 2.3026])) == "2.303 → 1.871 over 2 points"


def test_series_of_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        Series(name="a", x=[0, 1], y=[1])


# Bars


def test_bars_are_shares_of_the_widest_and_negative_ones_go_left() -> None:
    bars = bar_chart_view(BarChart(title="", unit="", bars=[("a", 3.0), ("b", -1.0)])).shown
    assert [(bar.start_percent, bar.width_percent) for bar in bars] == [("25.00", "75.00"), ("0.00", "25.00")]


def test_a_bar_that_is_nan_has_a_word_and_no_bar() -> None:
    (bar,) = bar_chart_view(BarChart(title="", unit="", bars=[("a", math.nan)])).shown
    assert (bar.value, bar.width_percent) == ("NaN", "")


def test_many_bars_open_on_a_click() -> None:
    view = bar_chart_view(BarChart(title="", unit="", bars=[(str(index), 1.0) for index in range(45)]))
    assert (len(view.shown), len(view.rest)) == (30, 15)


# Heat


def tree(nodes: list[HeatNode]) -> list[object]:
    return [(node.label, node.css, tree(list(node.children.values()))) for node in nodes]


def test_dotted_names_nest_and_keep_their_order() -> None:
    view = heat_view(Heat(title="", unit="", values=[("b.1", 1.0), ("a", 1.0), ("b.0", 1.0)]))
    assert [(node.label, list(node.children)) for node in view.nodes] == [("b", ["1", "0"]), ("a", [])]


def test_a_chain_without_values_is_one_block() -> None:
    (node,) = heat_view(Heat(title="", unit="", values=[("backbone.stem.conv", 1.0)])).nodes
    assert (node.label, node.title) == ("backbone.stem.conv", "backbone.stem.conv: 1")


def test_colours_follow_decades() -> None:
    values = [("a", 2e-9), ("b", 2e-6), ("c", 0.5), ("d", 0.0), ("e", math.nan), ("f", None), ("g", math.inf)]
    view = heat_view(Heat(title="", unit="", values=values))
    assert [node.css for node in view.nodes] == ["h1", "h3", "h7", "zero", "bad", "none", "bad"]
    assert view.legend[1].label == "1e-9 to 1e-7"
    assert [entry.label for entry in view.legend][-2:] == ["NaN or Inf", "no value"]


def test_one_value_has_a_colour_of_the_middle() -> None:
    (node,) = heat_view(Heat(title="", unit="", values=[("a", 3.0)], log_scale=False)).nodes
    assert re.fullmatch("h[3-5]", node.css)


def test_a_very_deep_name_ends_in_one_block() -> None:
    name = ".".join("abcdefghijklmnopqrstuvwxyz")
    (node,) = heat_view(Heat(title="", unit="", values=[(name, 1.0), ("a.b", 1.0)])).nodes
    depth = 1
    while node.children:
        node = list(node.children.values())[-1]
        depth += 1
    assert depth <= 12
    assert node.path == name


# Tables


def test_cells_carry_bars_and_what_rounding_hides() -> None:
    view = table_view(
        Table(columns=[Column(title="t", number=True, bar=True)], rows=[(1234.5678,), (-617.2839,), (None,)]), "t"
    )
    cells = [row[0] for row in view.rows]
    assert [(cell.text, cell.exact, cell.bar_percent) for cell in cells] == [
        ("1,235", "1234.5678", "100.0"),
        ("-617.3", "-617.2839", "50.0"),
        ("–", "", ""),
    ]


def test_a_column_that_asks_for_more_digits_shows_them() -> None:
    columns = [Column(title="loss", number=True, digits=7), Column(title="loss", number=True)]
    view = table_view(Table(columns=columns, rows=[(2.3025850929, 2.3025850929)]), "t")
    assert [cell.text for cell in view.rows[0]] == ["2.302585", "2.303"]


def test_a_bar_of_nothing_but_zeros_and_nan_is_not_drawn() -> None:
    view = table_view(Table(columns=[Column(title="t", number=True, bar=True)], rows=[(0,), (math.nan,)]), "t")
    assert [row[0].bar_percent for row in view.rows] == ["", ""]


@pytest.mark.parametrize(("rows", "marked"), [([(1, 2)], []), ([(1,)], [1]), ([(1,)], [-1])])
def test_a_table_checks_its_rows_and_marks(rows: list[tuple[int, ...]], marked: list[int]) -> None:
    with pytest.raises(ValueError, match="must"):
        Table(columns=[Column(title="a")], rows=rows, marked=marked)


# Diffs


def test_a_deleted_line_that_looks_like_a_header_is_a_deleted_line() -> None:
    text = (
        "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1 @@\n--- a comment\n select 1\n--- a/r.py\n+++ b/r.py\n@@ -0,0 +1 @@\n+x\n"
    )
    files = diff_view(text, "").files
    assert [(file.name, file.num_added, file.num_deleted) for file in files] == [("q.sql", 0, 1), ("r.py", 1, 0)]


def test_lines_have_the_numbers_of_both_sides() -> None:
    lines = diff_view("--- a/f\n+++ b/f\n@@ -9,2 +9,3 @@\n a\n-b\n+c\n+d\n", "").files[0].lines
    assert [(line.kind, line.margin) for line in lines[1:]] == [
        ("ctx", " 9  9"),
        ("del", "10   "),
        ("add", "   10"),
        ("add", "   11"),
    ]


def test_a_new_a_deleted_and_a_renamed_file_are_files_of_their_own() -> None:
    text = (
        "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/born b/born\nnew file mode 100644\n--- /dev/null\n+++ b/born\n@@ -0,0 +1 @@\n+x\n"
        "\\ No newline at end of file\n"
    )
    assert [file.name for file in diff_view(text, "").files] == ["new", "gone", "born"]


def test_text_that_is_no_diff_is_kept() -> None:
    (file,) = diff_view("hello\nworld", "").files
    assert [line.text for line in file.lines] == ["hello", "world"]


def test_a_diff_too_long_for_a_page_says_how_much_is_missing() -> None:
    assert diff_view("--- a/f\n+++ b/f\n@@ -0,0 +1,6000 @@\n" + "+x\n" * 6000, "").num_hidden == 1003


def test_an_edit_marks_the_words_that_changed() -> None:
    edit = Edit(path="t.py", start_line=41, end_line=42, before="import a\nx.to('cuda')", after="import a\nx.to('npu')")
    lines = edit_lines(edit)
    assert [(line.kind, line.old, line.new) for line in lines] == [
        ("ctx", 41, 41),
        ("del", 42, None),
        ("add", None, 42),
    ]
    assert [text for line in lines for text, changed in line.parts if changed] == ["cuda", "npu"]


def test_a_changed_line_is_found_beside_an_added_one() -> None:
    lines = edit_lines(
        Edit(path="t.py", start_line=1, end_line=1, before="d = f('cuda')", after="import torch_npu\nd = f('npu')")
    )
    assert [text for line in lines for text, changed in line.parts if changed] == ["cuda", "npu"]


def test_lines_with_nothing_in_common_are_not_marked() -> None:
    lines = edit_lines(Edit(path="t.py", start_line=1, end_line=1, before="alpha", after="x = y + 1"))
    assert [changed for line in lines for _, changed in line.parts] == [False, False]


# Findings


def finding(code: str, severity: Severity, line: int = 1, **fields: object) -> Finding:
    where = Location(path="a.py", line=line)
    return Finding(code=code, severity=severity, message=f"m{line}", where=where, **fields)  # type: ignore[arg-type]


def test_groups_are_by_rule_with_the_most_severe_first() -> None:
    found = [finding("JM402", Severity.ADVICE), finding("JM101", Severity.INFO), finding("JM301", Severity.ERROR)]
    found.append(finding("JM101", Severity.WARNING, 2))
    groups = finding_list_view(FindingList(findings=found), "f").groups
    assert [(group.code, group.severity.label, group.num_findings) for group in groups] == [
        ("JM301", "error", 1),
        ("JM101", "warning", 2),
        ("JM402", "advice", 1),
    ]


def test_what_all_findings_of_a_rule_say_is_said_once() -> None:
    found = [finding("JM101", Severity.INFO, line, why="same", action=f"act {line}") for line in (1, 2)]
    (group,) = finding_list_view(FindingList(findings=found), "f").groups
    assert (group.why, group.action) == ("same", "")
    assert [(view.why, view.action) for view in group.findings] == [("", "act 1"), ("", "act 2")]


def test_further_findings_of_a_rule_are_rows_of_a_table() -> None:
    found = [finding("JM101", Severity.INFO, line) for line in range(1, 31)]
    (group,) = finding_list_view(FindingList(findings=found), "f").groups
    assert len(group.findings) == 20
    assert group.rest is not None
    assert group.rest.data["rows"][0] == ["a.py:21", "info", "m21"]


def test_few_findings_are_open_and_of_many_only_the_errors() -> None:
    found = [finding("JM101", Severity.INFO, line) for line in range(20)] + [finding("JM301", Severity.ERROR)]
    groups = finding_list_view(FindingList(findings=found), "f").groups
    assert [(group.code, group.open) for group in groups] == [("JM301", True), ("JM101", False)]
    assert finding_list_view(FindingList(findings=found[:3]), "f").groups[0].open


def test_evidence_has_names_with_units_and_seven_digits() -> None:
    evidence = {"duration_us": 15234.12345678, "index": [3, 17], "ok": True, "nested": {"a": [math.nan]}, "none": []}
    (group,) = finding_list_view(
        FindingList(findings=[finding("JM401", Severity.ADVICE, evidence=evidence)]), "f"
    ).groups
    assert [(item.name, item.text) for item in group.findings[0].evidence] == [
        ("duration (µs)", "15,234.12"),
        ("index", "3, 17"),
        ("ok", "yes"),
        ("nested", "a NaN"),
        ("none", "none"),
    ]


def test_evidence_that_is_a_list_of_objects_is_a_table() -> None:
    outputs = [{"name": "output.0", "cosine": 0.5}, {"name": "output.1", "l2": 2}]
    (group,) = finding_list_view(
        FindingList(findings=[finding("JM301", Severity.ERROR, evidence={"outputs": outputs})]), "f"
    ).groups
    (item,) = group.findings[0].evidence
    assert item.columns == ["name", "cosine", "l2"]
    assert item.rows == [
        [("output.0", False), ("0.5", True), ("–", False)],
        [("output.1", False), ("–", False), ("2", True)],
    ]


@pytest.mark.parametrize(("name", "text"), [("num_calls", "num calls"), ("size_bytes", "size (bytes)"), ("us", "us")])
def test_a_field_name_reads_as_words(name: str, text: str) -> None:
    assert readable_name(name) == text


# Prose


def test_paragraphs_are_split_at_empty_lines() -> None:
    assert [[span.text for span in part] for part in paragraphs("a\nb\n\n  \n`c` d\n")] == [["a b"], ["c", " d"]]
