from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recording_builder import Array, Run, mlp

from jumar.comparison import CompareOptions, compare
from jumar.comparison.diagnosis import diagnose
from jumar.comparison.diagnosis.second_pass import second_pass
from jumar.show import page_json, render_html
from jumar.show.blocks.page import FindingList, KeyValues, LineChart, Page, Section, Table, Text
from jumar.show.blocks.pictures import Excerpt, Histogram, Outline, Questions, Raster
from jumar.show.compare.page import compare_page


def section(page: Page, title: str) -> Section:
    return next(section for section in page.sections if section.title.startswith(title))


def titles(page: Page) -> list[str]:
    return [section.title for section in page.sections]


def scaled(out: Array) -> Array:
    return out * np.float32(1.01)


def pair(values: str = "stats") -> tuple[Run, Run]:
    return mlp(Run(values=values)), mlp(Run(values=values, device="npu"), wrong={"layers.1": scaled})


def diverging_page(values: str = "stats") -> Page:
    return compare_page(compare(*pair(values)))


def whole_page(reference: Run, target: Run) -> Page:
    comparison = compare(reference, target)
    diagnosis = diagnose(comparison, reference, target)
    comparison = replace(comparison, findings=(*comparison.findings, *diagnosis.findings))
    return compare_page(comparison, diagnosis=diagnosis, recordings=(reference, target))


def test_the_verdict_and_the_first_action_come_from_the_comparison() -> None:
    page = diverging_page()
    assert page.verdict.status == "failed"
    assert page.verdict.headline.startswith("The runs diverge first at aten::mm in layers.1")
    assert page.actions[0].command == "jumar rule JM301"


def test_agreeing_runs_make_a_fine_page_without_a_divergence() -> None:
    page = whole_page(mlp(Run()), mlp(Run()))
    assert page.verdict.status == "fine"
    assert "First divergence" not in titles(page)
    assert section(page, "How it was found").collapsed


def test_the_losses_of_both_runs_are_drawn() -> None:
    reference, target = pair()
    mlp(reference, step=1)
    mlp(target, step=1)
    chart, table = section(compare_page(compare(reference, target)), "Losses").blocks
    assert isinstance(chart, LineChart)
    assert [series.name for series in chart.series] == ["reference", "target"]
    assert isinstance(table, Table)
    assert list(table.marked) == [0]


def test_modules_are_coloured_by_their_error_and_the_place_is_marked() -> None:
    (tree,) = section(diverging_page(), "Error by module").blocks
    assert isinstance(tree, Outline)
    errors = {entry.name: entry.value or 0.0 for entry in tree.entries}
    assert errors["layers.0"] == 0.0
    assert errors["layers.1"] > 0.009
    assert [entry.name for entry in tree.entries if entry.marked] == ["layers.1"]


def test_the_divergence_is_marked_among_the_operators() -> None:
    (table,) = section(diverging_page(), "Operators that differ").blocks
    assert isinstance(table, Table)
    names = [column.title for column in table.columns]
    assert [table.rows[row][names.index("operator")] for row in table.marked] == ["aten::mm"]


def test_statistics_are_shown_as_bounds_and_tensors_as_figures() -> None:
    facts, bounds = section(diverging_page(), "First divergence").blocks
    assert isinstance(facts, KeyValues)
    assert str(dict(facts.items)["error"]).startswith("≥ ")
    assert isinstance(bounds, Table)
    assert bounds.rows[-1][4] == "not known"
    assert str(bounds.rows[-1][5]).startswith("≥ ")
    _, exact = section(diverging_page("tensors"), "First divergence").blocks
    assert isinstance(exact, Table)
    assert " at [" in str(exact.rows[-1][6])


def test_whole_tensors_are_drawn() -> None:
    blocks = section(whole_page(*pair("tensors")), "First divergence").blocks
    histograms = [block for block in blocks if isinstance(block, Histogram)]
    (raster,) = [block for block in blocks if isinstance(block, Raster)]
    assert [[one.name for one in histogram.series] for histogram in histograms] == [
        ["reference", "target"],
        ["difference"],
    ]
    assert sum(histograms[0].series[0].counts) == 64 * 32
    assert (len(raster.values), len(raster.values[0])) == (32, 32)


def test_without_whole_tensors_that_is_said() -> None:
    blocks = section(whole_page(*pair()), "First divergence").blocks
    assert any(isinstance(block, Text) and "not recorded" in block.text for block in blocks)


def test_a_picture_shows_the_greatest_difference_of_each_block() -> None:
    def spoiled(out: Array) -> Array:
        out = out.copy()
        out[10, 3] += 100
        out[11, 4] = np.nan
        return out

    reference, target = mlp(Run(values="tensors")), mlp(Run(values="tensors"), wrong={"layers.1": spoiled})
    blocks = section(whole_page(reference, target), "First divergence").blocks
    (raster,) = [block for block in blocks if isinstance(block, Raster)]
    assert raster.values[5][3] == pytest.approx(100)
    assert np.isnan(raster.values[5][4])
    assert sum(value != 0 for row in raster.values for value in row) == 2


def test_the_way_through_the_flow_ends_at_the_decisive_answer() -> None:
    (asked,) = section(whole_page(*pair()), "How it was found").blocks
    assert isinstance(asked, Questions)
    assert [one.decisive for one in asked.questions] == [False] * (len(asked.questions) - 1) + [True]
    assert "layers.1" in asked.questions[-1].answer


def test_hypotheses_have_a_section_of_their_own_and_are_not_told_twice() -> None:
    page = whole_page(*pair("tensors"))
    (found,) = section(page, "What the difference looks like").blocks
    (others,) = section(page, "Accuracy findings").blocks
    assert isinstance(found, FindingList)
    assert isinstance(others, FindingList)
    assert {finding.code for finding in found.findings} == {"JM341"}
    assert not {finding.code for finding in others.findings} & {"JM340", "JM341"}
    assert "1.01 times" in " ".join(page.verdict.details)


def test_settings_stand_side_by_side_with_those_that_differ_first() -> None:
    reference, target = mlp(Run(settings={"a": 1, "threads": {"torch": 4}})), mlp(Run(settings={"a": 1, "b": True}))
    (table,) = section(whole_page(reference, target), "Settings side by side").blocks
    assert isinstance(table, Table)
    assert [list(row) for row in table.rows] == [
        ["settings.threads.torch", 4, None],
        ["settings.b", None, True],
        ["settings.a", 1, 1],
    ]
    assert list(table.marked) == [0, 1]


def test_the_script_is_quoted_around_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("".join(f"line {number}\n" for number in range(1, 30)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = section(whole_page(*pair()), "First divergence").blocks
    (excerpt,) = [block for block in blocks if isinstance(block, Excerpt)]
    assert (excerpt.first_line, list(excerpt.marked), excerpt.lines[0]) == (1, [1], "line 1")


def test_what_was_not_compared_is_listed_with_its_reason() -> None:
    reference, target = mlp(Run()), mlp(Run())
    for run in (reference, target):
        run.call("aten::bincount", [np.zeros(3)], [np.zeros(0)], path="tail")
    target.warnings.append("step-000001-rank-0.parquet is cut short or damaged and is left out")
    text = str(page_json(whole_page(reference, target)))
    assert "Target: step-000001-rank-0.parquet" in text


def test_the_second_pass_is_an_action_with_its_command() -> None:
    reference, target = pair()
    for run in (reference, target):
        run.info = replace(run.info, command=("train.py", "--lr", "0.1"))
    comparison = compare(reference, target)
    diagnosis = diagnose(comparison, reference, target)
    second = second_pass(comparison.reference, comparison.target, diagnosis.suspects, "suspects.json")
    page = compare_page(comparison, diagnosis=diagnosis, second_pass=second)
    commands = [action.command for action in page.actions]
    expected = "jumar record -o npu-tensors --device npu --steps 0:1 --tensors-of suspects.json train.py --lr 0.1"
    assert expected in commands


def test_the_page_renders_and_has_a_json_form() -> None:
    page = whole_page(*pair("tensors"))
    assert "layers.1" in render_html(page)
    assert page_json(page)["verdict"]["status"] == "failed"


def test_the_page_of_a_long_run_stays_small() -> None:
    reference, target = Run(values="stats"), Run(values="stats")
    for step in range(120):
        for run in (reference, target):
            mlp(run, step=step, wrong={"layers.1": scaled} if run is target else None)
    comparison = compare(reference, target, options=CompareOptions(all_steps=True))
    diagnosis = diagnose(comparison, reference, target)
    page = compare_page(comparison, diagnosis=diagnosis, recordings=(reference, target))
    assert len(render_html(page)) < 1_000_000
