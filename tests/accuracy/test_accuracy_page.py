from __future__ import annotations

from recording_builder import Run, mlp

from jumar.accuracy import compare
from jumar.pages.comparison import compare_page
from jumar.report import page_json, render_html
from jumar.report.page import KeyValues, LineChart, Page, Section, Table
from jumar.report.pictures import Outline


def section(page: Page, title: str) -> Section:
    return next(section for section in page.sections if section.title.startswith(title))


def diverging_page(values: str = "stats") -> Page:
    target = mlp(Run(values=values), wrong={"layers.1": lambda out: out * 1.01})
    return compare_page(compare(mlp(Run(values=values)), target))


def test_the_verdict_and_the_first_action_come_from_the_comparison() -> None:
    page = diverging_page()
    assert page.verdict.status == "failed"
    assert page.verdict.headline.startswith("The runs diverge first at aten::mm in layers.1")
    assert page.actions[0].command == "jumar rule JM301"


def test_agreeing_runs_make_a_fine_page_without_a_divergence() -> None:
    page = compare_page(compare(mlp(Run()), mlp(Run())))
    assert page.verdict.status == "fine"
    assert "First divergence" not in [section.title for section in page.sections]


def test_the_losses_of_both_runs_are_drawn() -> None:
    chart, table = section(diverging_page(), "Losses").blocks
    assert isinstance(chart, LineChart)
    assert [series.name for series in chart.series] == ["reference", "target"]
    assert isinstance(table, Table)
    assert list(table.marked) == [0]


def test_modules_are_coloured_by_their_error() -> None:
    (tree,) = section(diverging_page(), "Error by module").blocks
    assert isinstance(tree, Outline)
    errors = {entry.name: entry.value or 0.0 for entry in tree.entries}
    assert errors["layers.0"] == 0.0
    assert errors["layers.1"] > 0.009
    assert [entry.name for entry in tree.entries if entry.marked] == ["layers.1"]


def test_the_divergence_is_marked_among_the_operators() -> None:
    (table,) = section(diverging_page(), "Operators that differ").blocks
    assert isinstance(table, Table)
    assert [table.rows[row][3] for row in table.marked] == ["aten::mm"]


def test_statistics_are_shown_as_bounds_and_tensors_as_figures() -> None:
    facts, bounds = section(diverging_page(), "First divergence").blocks
    assert isinstance(facts, KeyValues)
    assert str(dict(facts.items)["error"]).startswith("≥ ")
    assert isinstance(bounds, Table)
    assert (bounds.rows[-1][5], bounds.rows[-1][8]) == ("not known", "not known")
    assert str(bounds.rows[-1][6]).startswith("≥ ")
    _, exact = section(diverging_page("tensors"), "First divergence").blocks
    assert isinstance(exact, Table)
    assert " at [" in str(exact.rows[-1][7])


def test_the_page_renders_and_has_a_json_form() -> None:
    page = diverging_page()
    assert "layers.1" in render_html(page)
    assert page_json(page)["verdict"]["status"] == "failed"
