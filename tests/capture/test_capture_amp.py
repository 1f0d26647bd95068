"""Recordings of programs that scale their loss with `jumar.amp`: the scale, skipped steps, names of masters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import jumar
from jumar import amp
from jumar.amp.state import STATE
from jumar.comparison.overflow import find_overflow
from jumar.recording import Recording
from jumar.show.blocks.page import LineChart
from jumar.show.compare.overflow_page import overflow_page


def program(path: Path, level: str, *, combine: bool, bad: set[int], by_amp: bool = True, factor: float = 1e38) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", growth_interval=4, enabled=not by_amp)
    if by_amp:
        model, optimizer = amp.initialize(
            model, optimizer, opt_level=level, half_type=torch.float16, combine_grad=combine, verbosity=0,
            loss_scale=amp.DynamicLossScale(scale_window=4),
        )  # fmt: skip
    with jumar.record(path):
        for number in range(8):
            loss = model(torch.ones(4, 8) * number).float().square().mean() * (factor if number in bad else 1.0)
            optimizer.zero_grad()
            if by_amp:
                with amp.scale_loss(loss, optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    STATE.stop_casts()


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_step_has_its_scale_and_says_that_it_was_skipped(tmp_path: Path, level: str, combine: bool) -> None:
    program(tmp_path / "r", level, combine=combine, bad={2, 5})
    recording = Recording.open(tmp_path / "r")
    assert list(recording.steps(0)) == list(range(8))
    info = [recording.step_info(step, 0) for step in range(8)]
    assert [one.skipped for one in info] == [number in {2, 5} for number in range(8)]
    assert [one.loss_scale for one in info] == [65536.0] * 3 + [32768.0] * 3 + [16384.0] * 2
    for step in range(8):
        rows = [row for row in recording.rows(step, 0) if row.kind == "parameter"]
        assert sorted((row.module_path, row.name) for row in rows) == [
            ("0", "bias"), ("0", "weight"), ("2", "bias"), ("2", "weight")
        ]  # fmt: skip
        assert {tensor.dtype for row in rows for tensor in row.outputs} == {"float32"}


def test_a_step_is_recorded_as_that_of_grad_scaler(tmp_path: Path) -> None:
    found = []
    for by_amp in (True, False):
        path = tmp_path / str(by_amp)
        program(path, "O0" if not by_amp else "O1", combine=False, bad={3}, by_amp=by_amp)
        recording = Recording.open(path)
        found.append([(recording.step_info(s, 0).loss_scale, recording.step_info(s, 0).skipped) for s in range(8)])
    assert found[0] == found[1]


def test_the_page_of_overflow_draws_the_scale_and_the_skipped_steps(tmp_path: Path) -> None:
    program(tmp_path / "r", "O2", combine=False, bad={2, 5}, factor=1e9)
    recording = Recording.open(tmp_path / "r")
    report = find_overflow(tmp_path / "r")
    assert [skip.step for skip in report.skips] == [2, 5]
    assert all(skip.operator.startswith("aten::") for skip in report.skips)
    page = overflow_page(report, recording)
    charts = [block for section in page.sections for block in section.blocks if isinstance(block, LineChart)]
    (chart,) = [chart for chart in charts if chart.title == "Loss scale and skipped steps, rank 0"]
    assert [series.name for series in chart.series] == ["loss scale", "skipped"]
    assert [y is not None for y in chart.series[1].y] == [number in {2, 5} for number in range(8)]


def test_a_program_that_skips_every_step_is_a_finding(tmp_path: Path) -> None:
    program(tmp_path / "r", "O1", combine=False, bad=set(range(8)))
    report = find_overflow(tmp_path / "r")
    assert "JM332" in {finding.code for finding in report.findings}
