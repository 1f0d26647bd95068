"""Collectives of several ranks: matched by call, on one clock, and who comes late."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.bottlenecks import Advice
from jumar.advise.look import look
from jumar.advise.ranks import Ranks, judge_ranks
from jumar.advise.ranks.arrivals import arrivals
from jumar.advise.ranks.links import Link
from jumar.advise.ranks.outlier import chance, too_few
from jumar.advise.timing.thresholds import Thresholds
from jumar.timeline.collectives import Collectives, collectives_of, operation_of
from jumar.timeline.reading import read_timeline

STEP_MS = 20.0
CALLS = ("all_reduce", "all_gather", "all_reduce")


def calls(
    rank: int,
    late_ms: float = 0.0,
    clock_ms: float = 0.0,
    steps: int = 8,
    words: dict[int, tuple[str, ...]] | None = None,
    group: str = "0",
) -> Collectives:
    """Return a rank that makes three calls a step, each begun late, all ended together; its clock is ahead."""
    rows = []
    for step in range(steps):
        for place, word in enumerate((words or {}).get(step, CALLS)):
            begin = step * STEP_MS + 5 * place + late_ms + clock_ms + 0.01 * ((step + place + rank) % 3)
            end = step * STEP_MS + 5 * place + 4.5 + clock_ms
            rows.append((word, step, begin, end))
    return Collectives(
        rank=rank, origin_ns=0, operations=tuple(row[0] for row in rows), groups=(group,) * len(rows),
        steps=np.array([row[1] for row in rows]),
        starts_ns=np.array([row[2] * 1e6 for row in rows]).astype(np.int64),
        ends_ns=np.array([row[3] * 1e6 for row in rows]).astype(np.int64),
    )  # fmt: skip


def found(ranks: list[Collectives], links: list[Link] = []) -> dict[str, Any]:  # noqa: B006
    from test_timing_ranks import rank

    parts = [rank(one.rank, [10.0] * 8) for one in ranks]
    everything = Ranks(decompositions=parts, thresholds=Thresholds.load(), collectives=ranks, links=links)
    return {finding.code: finding for finding in judge_ranks(everything)[0]}


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5))
def test_clocks_are_aligned_whatever_their_distance(clocks: list[float]) -> None:
    ranks = [calls(number, clock_ms=clock) for number, clock in enumerate(clocks)]
    matched = arrivals(ranks)
    assert matched is not None
    assert matched.num_matched == matched.num_calls == 24 * len(clocks)
    assert float(np.nanmax(matched.late_ms)) < 0.03
    assert matched.uncertain_ms < 0.001


def test_the_rank_that_comes_late_is_named_though_its_clock_is_ahead() -> None:
    late = found([calls(0), calls(1, late_ms=3.0, clock_ms=-500.0), calls(2, clock_ms=70.0)])["JM441"]
    assert late.evidence["rank"] == 1
    assert late.evidence["last_share"] == 1.0
    assert late.evidence["waits_ms_per_step"] == pytest.approx(9.0, abs=0.1)
    assert late.evidence["calls"] == late.evidence["calls_matched"] == 72


def test_ranks_that_come_last_by_turns_are_not_accused() -> None:
    assert "JM441" not in found([calls(0), calls(1), calls(2)])


def test_a_lateness_below_the_uncertainty_of_the_clocks_is_not_checked() -> None:
    ranks = [calls(0), calls(1, late_ms=3.0)]
    noise = np.where(np.arange(24) % 2, 9_000_000, -9_000_000)
    ranks[1] = Collectives(**{
        name: getattr(ranks[1], name) for name in ("rank", "origin_ns", "operations", "groups", "steps")
    }, starts_ns=ranks[1].starts_ns, ends_ns=ranks[1].ends_ns + noise)  # fmt: skip
    assert "JM441" not in found(ranks)


def test_the_first_call_that_differs_is_named_with_its_ranks() -> None:
    other = {3: ("all_reduce", "broadcast", "all_reduce"), 5: ("all_reduce", "all_gather")}
    wrong = found([calls(0), calls(1), calls(2, words=other)])["JM442"]
    assert wrong.message == (
        'The ranks of group "0" differ in step 3, at call 2: all_gather on ranks 0, 1; broadcast on rank 2.'
    )
    assert wrong.evidence["steps_that_differ"] == 2


@pytest.mark.parametrize(
    "ranks",
    [
        [calls(0), calls(1, words={0: ("all_reduce",), 7: ("all_reduce",)})],
        [calls(0), calls(1, words={3: ("all_gather", "all_reduce", "all_reduce")})],
        [calls(0, group=""), calls(1, words={3: ("barrier",)}, group="")],
        [calls(0, group="left"), calls(1, words={3: ("barrier",)}, group="right")],
    ],
    ids=["cut at its ends", "another order", "group unknown", "other groups"],
)
def test_these_are_no_mismatches(ranks: list[Collectives]) -> None:
    assert "JM442" not in found(ranks)


def test_the_slow_link_of_a_transport_is_named() -> None:
    links = [Link(f"0-{peer}", "HCCS", 100.0, 5.0) for peer in range(1, 5)] + [Link("0-5", "HCCS", 100.0, 20.0)]
    links += [Link("0-8", "RDMA", 100.0, 50.0), Link("0-0", "HCCS", 100.0, 500.0)]
    slow = found([calls(0), calls(1)], links)["JM443"]
    assert (slow.evidence["link"], slow.evidence["gb_per_s"], slow.evidence["usual_gb_per_s"]) == ("0-5", 5.0, 20.0)
    assert "JM443" not in found([calls(0), calls(1)], links[:4])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl:all_reduce", "all_reduce"), ("gloo:allgather", "all_gather"), ("c10d::allreduce_", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("hcom_allReduce__428_0_1", "all_reduce"), ("hcom_reduceScatter__1", "reduce_scatter"),
        ("hcom_alltoallv_", "all_to_all"), ("nccl:_reduce_oop", "reduce"), ("gloo:barrier", "barrier"),
        ("record_param_comms", "record_param_comms"),
    ],
)  # fmt: skip
def test_operations_are_read_from_the_names_of_libraries_and_kernels(name: str, expected: str) -> None:
    assert operation_of(name) == expected


def test_an_all_to_all_is_told_from_sending_by_the_hosts_calls(tmp_path: Path) -> None:
    def operations(host: str, **told: str) -> tuple[str, ...]:
        rows = [(host, "cpu_op", {}), ("ncclKernel_SendRecv_RING_SIMPLE", "kernel", told)]
        events = [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 5, "args": arguments}
            for name, cat, arguments in rows
        ]
        (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        return collectives_of(read_timeline(tmp_path / "t.json")).operations

    assert operations("nccl:all_to_all") == ("all_to_all",)
    assert operations("nccl:send") == ("send_recv",)
    assert operations("aten::mm", **{"Collective name": "all_to_allv"}) == ("all_to_all",)


@pytest.mark.parametrize(("few", "many"), [(2, 3), (3, 3), (4, 2), (3, 5)])
def test_the_chance_is_the_share_of_all_orders(few: int, many: int) -> None:
    won = [
        sum(sum(other < own for other in range(few + many) if other not in chosen) for own in chosen)
        for chosen in combinations(range(few + many), few)
    ]
    for ahead in range(few * many + 1):
        share = sum(one >= ahead for one in won) / math.comb(few + many, few)
        assert chance(few, many, ahead) == pytest.approx(share)


def test_too_few_steps_are_not_checked() -> None:
    from test_timing_ranks import rank

    ranks = [calls(0, steps=3), calls(1, late_ms=3.0, steps=3)]
    parts = [rank(number, [10.0 + 9 * number] * 3) for number in range(2)]
    judged = judge_ranks(Ranks(decompositions=parts, thresholds=Thresholds.load(), collectives=ranks))
    assert {"JM440", "JM441"} & {finding.code for finding in judged[0]} == set()
    assert {"JM440", "JM441"} <= {gap.code for gap in judged[1]}
    assert too_few(2, 4) == too_few(8, 1) == ""


def write(folder: Path, number: int, late_ms: float, steps: int = 6) -> None:
    """Write a rank's trace: operators, then an all-reduce that ends together with the other ranks'."""
    events: list[dict[str, object]] = []
    for step in range(steps):
        begin = 20_000 * step
        rows = [
            (f"ProfilerStep#{step}", "user_annotation", begin, 20_000),
            ("aten::mm", "cpu_op", begin, 5000 + 1000 * late_ms),
            ("gloo:all_reduce", "cpu_op", begin + 5000 + 1000 * late_ms + number % 3, 15_000 - 1000 * late_ms),
        ]
        events += [{"ph": "X", "pid": 1, "tid": 1, "name": n, "cat": c, "ts": t, "dur": d} for n, c, t, d in rows]
    text = json.dumps({"distributedInfo": {"rank": number, "world_size": 40}, "traceEvents": events})
    (folder / f"rank{number}.json").write_text(text)


def test_of_many_ranks_all_are_scanned_and_a_sample_is_read_in_full(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, number, 6.0 if number == 27 else 0.0)
    first, *others = look(tmp_path)
    codes = {finding.code: finding for finding in first.findings}
    assert (codes["JM441"].evidence["rank"], codes["JM440"].evidence["rank"]) == (27, 27)
    assert 27 in {first.rank, *(one.rank for one in others)}
    assert len(others) == 7
    assert any("looked at 8 of 40 ranks" in gap.reason for gap in first.not_checked)


def test_a_rank_that_cannot_be_read_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, number, 0.0)
    (tmp_path / "rank9.json").write_text('{"distributedInfo": {"rank": 9}, "traceEvents": [')
    first, *others = look(tmp_path)
    assert {one.rank for one in (first, *others)} == {0, 1, 2}
    (gap,) = unread(first)
    assert gap.startswith("1 source of 4 could not be read: ")
    assert "rank9.json" in gap


def unread(advice: Advice) -> list[str]:
    return [gap.reason for gap in advice.not_checked if gap.name == "unread ranks"]


@pytest.mark.slow
def test_a_cluster_says_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for number in range(3):
        write(tmp_path, number, 6.0 if number == 1 else 0.0)
    here, there = look(tmp_path), look(tmp_path, cluster="local")
    assert [one.to_json() for one in there] == [one.to_json() for one in here]
