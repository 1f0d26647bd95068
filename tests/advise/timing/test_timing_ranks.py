"""Several ranks: the one that the others wait for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_timing_rules import HOST, MS, Row

from jumar.advise.look import look
from jumar.advise.ranks import Ranks, judge_ranks
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.errors import InputError
from jumar.base.findings import Finding
from jumar.timeline.decompose import Decomposition, decompose
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, StepWindow


def rank(number: int, works_ms: list[float], step_ms: float = 20.0) -> Decomposition:
    """Return a rank that loads data for so long in each step and communicates until the step ends."""
    builder = TimelineBuilder()
    for step, works in enumerate(works_ms):
        rows: list[Row] = [
            ("enumerate(DataLoader)", Kind.DATA, HOST, 0, works),
            ("gloo:all_reduce", Kind.COLLECTIVE, HOST, works, step_ms - works),
        ]
        for name, kind, lane, start, length in rows:
            place = builder.name(name), builder.lane(lane)
            builder.add(int((step * step_ms + start) * MS), int(length * MS), kind, *place)
    windows = [StepWindow(i, int(i * step_ms * MS), int((i + 1) * step_ms * MS)) for i in range(len(works_ms))]
    return decompose(builder.build(steps=windows, steps_from="marks", source="made", format="kineto", rank=number))


def judged(ranks: list[Decomposition]) -> list[Finding]:
    return judge_ranks(Ranks(decompositions=ranks, thresholds=Thresholds.load()))[0]


def test_the_slow_rank_is_named_with_its_step_and_its_part() -> None:
    ranks = [rank(number, [10.0] * 8) for number in range(4)]
    ranks[2] = rank(2, [10.0, 10, 10, 18, 18, 18, 18, 18])
    (finding,) = judged(ranks)
    assert (finding.evidence["rank"], finding.where.step, finding.evidence["part"]) == (2, 3, "data")
    assert finding.evidence["saves_at_most_ms_per_step"] == 8


def test_ranks_that_work_alike_are_not_accused() -> None:
    assert judged([rank(number, [10.0 + number / 10] * 8) for number in range(4)]) == []


def test_a_rank_that_nobody_waits_for_is_not_slow() -> None:
    ranks = [rank(number, [20.0] * 6) for number in range(3)]
    ranks[1] = rank(1, [30.0] * 6, 30.0)
    assert judged(ranks) == []


def test_one_rank_is_not_compared() -> None:
    assert judged([rank(0, [10.0] * 4)]) == []


def write(folder: Path, number: int, works_ms: list[float], filler: int = 0) -> None:
    """Write a rank's trace: loading, then a collective until the step ends."""
    events: list[dict[str, object]] = []
    for step, works in enumerate(works_ms):
        begin = 20_000 * step
        rows = [
            (f"ProfilerStep#{step}", "user_annotation", begin, 20_000),
            ("enumerate(DataLoader)#x.__next__", "user_annotation", begin, 1000 * works),
            ("gloo:all_reduce", "cpu_op", begin + 1000 * works, 20_000 - 1000 * works),
        ]
        events += [{"ph": "X", "pid": 1, "tid": 1, "name": n, "cat": c, "ts": t, "dur": d} for n, c, t, d in rows]
    text = json.dumps({"distributedInfo": {"rank": number, "world_size": 4}, "traceEvents": events})
    (folder / f"rank{number}.json").write_text(text + " " * filler)


@pytest.mark.parametrize("filler", [0, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_a_folder_of_ranks_is_judged_whole_also_by_several_processes(filler: int, tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number, [10.0] * 8 if number != 3 else [10.0, 10, 10, 17, 17, 17, 17, 17], filler)
    first, *others = look(tmp_path)
    assert {first.rank, *(one.rank for one in others)} == {0, 1, 2, 3}
    (finding,) = [finding for finding in first.findings if finding.code == "JM440"]
    assert (finding.evidence["rank"], finding.where.step) == (3, 3)
    assert [one.rank for one in look(tmp_path, rank=2)] == [2]
    with pytest.raises(InputError, match="must have rank 9; it has 0, 1, 2, 3"):
        look(tmp_path, rank=9)


def test_of_two_sources_of_a_rank_the_one_without_operators_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, 0, [10.0] * 8)
    (tmp_path / "marks.json").write_text(
        json.dumps(
            {
                "distributedInfo": {"rank": 0},
                "traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "name": "gc", "ts": 0, "dur": 9}],
            }
        )
    )
    (only,) = look(tmp_path)
    assert only.operators
