"""Two profiles: slower, faster, the same, too noisy to tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_timing_rules import HOST, MS

from jumar.advise.against import ProfileComparison, compare_timelines
from jumar.base.errors import InputError
from jumar.cli.main import main
from jumar.show.pages.profiles import against_page
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, StepWindow, Timeline


def steps_of(lengths_ms: list[float], operator: str = "aten::mm") -> Timeline:
    """Return a timeline whose steps are one operator each."""
    builder, windows, now = TimelineBuilder(), [], 0
    for number, length in enumerate(lengths_ms):
        end = now + int(length * MS)
        builder.add(now, end - now, Kind.OPERATOR, builder.name(operator), builder.lane(HOST))
        windows.append(StepWindow(number, now, end))
        now = end
    return builder.build(steps=windows, steps_from="marks", source="made", format="kineto", device="cpu")


STEADY = [30.0, 10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.0]


def compared(after: list[float], operator: str = "aten::mm") -> ProfileComparison:
    return compare_timelines(steps_of(STEADY), steps_of(after, operator))


def test_a_slower_step_is_slower_and_the_operator_is_named() -> None:
    found = compared([length * 1.2 for length in STEADY])
    assert found.step.is_beyond_noise
    assert found.is_slower(0.03)
    assert not found.is_slower(0.3)
    assert found.operators[0].name == "aten::mm"
    assert found.operators[0].change_ms == pytest.approx(2, abs=0.1)
    assert against_page(found, 0.03).verdict.status == "failed"
    assert "slower by 20" in against_page(found).verdict.headline


def test_the_same_steps_are_as_long_as_before() -> None:
    found = compared(STEADY)
    assert not found.is_slower(0)
    assert against_page(found, 0.03).verdict.status == "fine"


def test_a_faster_step_is_fine() -> None:
    page = against_page(compared([length / 2 for length in STEADY]))
    assert (page.verdict.status, "faster by 50" in page.verdict.headline) == ("fine", True)


def test_noise_that_could_hide_a_slower_step_is_no_all_clear() -> None:
    page = against_page(compared([30.0, 6, 16, 8, 14, 10, 7, 15]), 0.03)
    assert page.verdict.status == "attention"
    assert "too noisy" in page.verdict.headline


def test_an_operator_that_is_new_counts_from_nothing() -> None:
    found = {one.name: one for one in compared(STEADY, "aten::bmm").operators}
    assert (found["aten::mm"].after_ms, found["aten::bmm"].before_ms) == (0, 0)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(InputError, match="must have more than 3 steps"):
        compare_timelines(steps_of(STEADY), steps_of([1.0, 1.0, 1.0]))


def trace(path: Path, lengths_ms: list[float]) -> Path:
    """Write a trace of torch.profiler's form."""
    events, now = [], 0.0
    for number, length in enumerate(lengths_ms):
        common = {"ph": "X", "pid": 1, "tid": 1, "ts": now, "dur": 1000 * length}
        events.append({**common, "name": f"ProfilerStep#{number}", "cat": "user_annotation"})
        events.append({**common, "name": "aten::mm", "cat": "cpu_op"})
        now += 1000 * length
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_the_gate_fails_a_slower_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = trace(tmp_path / "a.json", STEADY), trace(tmp_path / "b.json", [1.2 * one for one in STEADY])
    assert main(["advise", str(after), "--against", str(before), "--fail-on", "slower:3%"]) == 1
    assert "slower by 20" in capsys.readouterr().out
    assert main(["advise", str(after), "--against", str(before), "--fail-on", "slower:30%"]) == 0
    assert main(["advise", str(after), "--fail-on", "slower:3%"]) == 2
    assert main(["advise", str(after), "--fail-on", "slow"]) == 2
