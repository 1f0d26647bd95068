"""What a step would take: replays against arithmetic by hand, and against a real trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_timing_against import STEADY, trace
from test_timing_rules import DEVICE, HOST, MS, made

from jumar.advise.whatif import ask
from jumar.base.errors import UsageError
from jumar.cli.main import main
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, StepWindow, Timeline
from jumar.timeline.reading import read_timeline


def launched(host_ms: float, kernel_ms: float, num: int = 4, num_steps: int = 4, waits: bool = True) -> Timeline:
    """Return steps in which the host launches kernels one after the other, then waits for the last."""
    builder, windows, now, free, link = TimelineBuilder(), [], 0.0, 0.0, 0
    for step in range(num_steps):
        begin = now
        for _ in range(num):
            link += 1
            for name, kind, length in (("aten::mm", Kind.OPERATOR, host_ms), ("launch", Kind.RUNTIME, host_ms / 10)):
                place = builder.name(name), builder.lane(HOST)
                builder.add(int(now * MS), int(length * MS), kind, *place, link=link if name == "launch" else 0)
            free = max(free, now)
            builder.add(
                int(free * MS), int(kernel_ms * MS), Kind.KERNEL, builder.name("gemm"), builder.lane(DEVICE), link=link
            )
            free += kernel_ms
            now += host_ms
        if waits and free > now:
            builder.add(int(now * MS), int((free - now) * MS), Kind.WAIT, builder.name("sync"), builder.lane(HOST))
            now = free
        windows.append(StepWindow(step, int(begin * MS), int(now * MS)))
    return builder.build(steps=windows, steps_from="marks", source="made", format="kineto", device="cuda")


def test_faster_kernels_help_where_the_device_is_the_bottleneck() -> None:
    answer = ask(launched(host_ms=1, kernel_ms=10), "operator:gemm:x0.5")
    assert answer.step_ms == pytest.approx(answer.replayed_ms) == pytest.approx(40)
    assert answer.new_step_ms == pytest.approx(20)


def test_faster_kernels_change_nothing_where_the_host_is() -> None:
    timeline = launched(host_ms=10, kernel_ms=1)
    assert ask(timeline, "operator:gemm:x0.1").new_step_ms == pytest.approx(ask(timeline, "amp").step_ms)


def test_between_the_two_the_slower_side_decides() -> None:
    answer = ask(launched(host_ms=4, kernel_ms=10), "operator:gemm:x0.1")
    assert answer.new_step_ms == pytest.approx(16)  # four operators of 4 ms; the last kernel ends before


def test_an_operator_names_the_kernels_that_it_starts() -> None:
    assert ask(launched(1, 10), "operator:aten::mm:x0.5").new_step_ms == pytest.approx(20)


def test_free_loading_takes_its_time_out_of_the_step() -> None:
    rows = [("enumerate(DataLoader)", Kind.DATA, HOST, 0, 4), ("aten::mm", Kind.OPERATOR, HOST, 4, 6)]
    answer = ask(made(rows), "loader:free")  # type: ignore[arg-type]
    assert (answer.step_ms, answer.new_step_ms) == pytest.approx((10, 6))


def test_a_real_trace_is_replayed_as_it_was() -> None:
    timeline = read_timeline(Path(__file__).parents[2] / "timeline" / "data" / "h200_three_steps.json.gz")
    answer = ask(timeline, "amp")
    assert answer.replayed_ms == pytest.approx(answer.step_ms, rel=0.03)
    assert answer.new_step_ms == pytest.approx(answer.step_ms, rel=0.03)  # the host is the bottleneck


@pytest.mark.parametrize("text", ["loader", "operator:x", "gpus:4", "operator:none:x0.5", "loader:free", "tpus:3"])
def test_what_cannot_be_answered_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"must be|must hold|needs"):
        ask(launched(1, 10), text)


def test_the_command_says_what_it_assumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "a.json", STEADY)
    assert main(["advise", str(path), "--what-if", "operator:aten::mm:x0.5"]) == 0
    printed = capsys.readouterr().out
    assert "would take 5.00 ms instead of 10.00" in printed
    assert "Assumes: it takes 0.5 of its time." in printed
