"""The page of `jumar overflow`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recording_builder import Run

from jumar.cli.main import main
from jumar.comparison.overflow import OverflowReport, find_overflow
from jumar.recording import Recording, RecordingWriter, RunEnd, StepInfo
from jumar.show import page_json, render_html
from jumar.show.blocks.page import LineChart, Page, Section, Table
from jumar.show.blocks.pictures import Excerpt
from jumar.show.compare.overflow_page import overflow_page


def overflowing(*, source: str = "model.py:3") -> Run:
    """Return a run that takes the exponential of 1,000; a mask before it does no harm."""
    run = Run()
    x = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
    x = run.call("aten::mul.Tensor", [x], [x * np.float32(1000)], path="block")
    mask = run.call("aten::full", [], [np.full(4, -np.inf, np.float32)], path="block")
    run.call("aten::exp", [mask], [np.zeros(4, np.float32)], path="block")
    with np.errstate(over="ignore"):
        grown = run.call("aten::exp", [x], [np.exp(x)], path="block", source=source)
    mean = run.call("aten::mean", [grown], [np.asarray(grown.mean())], path="")
    run.call("loss", [], [mean], path="", kind="loss")
    return run


def written(folder: Path, run: Run, *, skips: bool = False) -> Path:
    writer = RecordingWriter(folder, run.info)
    for step in run.steps():
        writer.write_step(
            step, run.rows(step), {}, info=StepInfo(loss_scale=1024.0 / (step + 1), skipped=skips and step == 0)
        )
    writer.close(RunEnd(rank=0, status="finished", num_steps=len(run.steps())))
    return folder


def sections(page: Page) -> dict[str, Section]:
    return {section.title: section for section in page.sections}


def reported(run: Run) -> tuple[OverflowReport, Page]:
    report = find_overflow(run)
    return report, overflow_page(report, run)


def test_the_page_starts_with_the_answer_and_the_way_to_it() -> None:
    report, page = reported(overflowing())
    assert report.first is not None
    assert (page.verdict.status, page.verdict.headline) == ("failed", report.headline)
    chart, table = sections(page)["The calls before it"].blocks
    assert isinstance(chart, LineChart)
    assert isinstance(table, Table)
    assert table.marked == [len(table.rows) - 1]
    assert table.rows[-1][2] == "aten::exp"
    assert page.actions[0].title == report.findings[0].action


def test_a_run_without_an_overflow_makes_a_fine_page() -> None:
    run = Run()
    x = np.ones((2, 2), np.float32)
    run.call("aten::mul.Tensor", [x], [x * 2])
    report, page = reported(run)
    assert (page.verdict.status, report.first) == ("fine", None)
    assert "Where it begins" not in sections(page)


def test_the_line_is_shown_where_the_file_is_at_hand(tmp_path, monkeypatch) -> None:
    (tmp_path / "model.py").write_text("import torch\n\ny = torch.exp(x)\n")
    monkeypatch.chdir(tmp_path)
    _, page = reported(overflowing())
    lines = next(block for block in sections(page)["Where it begins"].blocks if isinstance(block, Excerpt))
    assert (lines.marked, lines.lines[2]) == ([3], "y = torch.exp(x)")


def test_the_history_of_the_loss_scale_is_drawn(tmp_path) -> None:
    run = Run()
    for step in range(3):
        x = np.ones((2, 2), np.float32)
        run.call("aten::mul.Tensor", [x], [x * 2], step=step)
    recording = Recording.open(written(tmp_path / "run", run, skips=True))
    page = overflow_page(find_overflow(recording), recording)
    chart = sections(page)["Updates that were skipped"].blocks[0]
    assert isinstance(chart, LineChart)
    assert chart.series[0].y == [1024.0, 512.0, 1024.0 / 3]


@pytest.mark.parametrize("values", ["stats", "tensors"])
def test_it_renders(values) -> None:
    _, page = reported(overflowing())
    html = render_html(page)
    assert html.startswith("<!doctype html>")
    assert "aten::exp" in html
    assert page_json(page)


def test_the_command_writes_it(tmp_path, capsys) -> None:
    folder = written(tmp_path / "run", overflowing())
    page = tmp_path / "overflow.html"
    assert main(["overflow", str(folder), "--report", str(page)]) == 1
    assert "Overflow, NaN and Inf" in page.read_text("utf-8")
    assert f"Wrote {page}." in capsys.readouterr().err
    assert main(["overflow", str(folder), "--report", str(page)]) == 2
    assert "--force" in capsys.readouterr().err
