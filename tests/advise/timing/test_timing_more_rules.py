"""Rules about memory, the host, Python's output and fusions, on timelines made by hand: found, clean, not checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_timing_rules import BUSY, DEVICE, HOST, MS, Row, codes, made

from jumar.advise.bottlenecks import Advice
from jumar.advise.timing import advise_timeline
from jumar.advise.timing.chains import Fusion, chains, steps_of
from jumar.advise.timing.rules.unfused_normalisation import FUSIONS
from jumar.base.host import runnable, throttled_ms
from jumar.timeline.chrome.beside import facts_beside
from jumar.timeline.model.allocations import Allocations, Owner
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Counter, Kind, Timeline

MIB = 2**20


def counter(name: str, unit: str, values: Sequence[float], every_ms: float = 10.0, first_ms: float = 5.0) -> Counter:
    times = ((np.arange(len(values)) * every_ms + first_ms) * MS).astype(np.int64)
    return Counter(name=name, unit=unit, times_ns=times, values=np.array(values, float))


def advised(timeline: Timeline) -> Advice:
    return advise_timeline(timeline)


def unchecked(advice: Advice) -> set[str]:
    return {gap.code for gap in advice.not_checked}


def with_facts(timeline: Timeline, facts: Mapping[str, str], *counters: Counter) -> Timeline:
    return replace(timeline, facts=facts, counters=counters)


@pytest.mark.parametrize(
    ("peak", "found"), [(62 * 1024 * MIB, True), (40 * 1024 * MIB, False)], ids=["near its limit", "far from it"]
)
def test_memory_near_the_limit_names_its_owner(peak: int, found: bool) -> None:
    memory = Allocations(
        device="npu:0", peak_bytes=peak, peak_ns=None, owners=[Owner("model.py:7", peak, 3)], allocated_bytes=0,
        reserved_bytes=0, peak_reserved_bytes=peak,
    )  # fmt: skip
    timeline = replace(made(BUSY), allocations=[memory], device_name="Ascend910B1")
    advice = advised(timeline)
    assert ("JM470" in codes(advice)) is found
    for finding in advice.findings:
        if finding.code == "JM470":
            assert (finding.where.path, finding.where.line) == ("model.py", 7)
    assert "JM470" in unchecked(advised(made(BUSY)))
    assert "JM470" in unchecked(advised(replace(timeline, device_name="")))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([100, 110, 120, 130, 140, 150, 160], True),
        ([100, 180, 100, 180, 100, 180, 100], False),
        ([100, 200, 200, 200, 200, 200, 200], False),
        ([100, 100.1, 100.2, 100.3, 100.4, 100.5, 100.6], False),
    ],
    ids=["grows", "up and down", "grows once", "by little"],
)
def test_memory_that_grows_in_each_step(values: list[float], found: bool) -> None:
    timeline = made(BUSY, num_steps=7)
    own = counter("memory npu:0", "bytes", [value * MIB for value in values])
    advice = advised(replace(timeline, counters=[own]))
    assert ("JM471" in codes(advice)) is found
    if found:
        (finding,) = [one for one in advice.findings if one.code == "JM471"]
        assert finding.evidence["grows_bytes_per_step"] == 10 * MIB
    reserved = counter("reserved npu:0", "bytes", [value * MIB for value in values])
    assert "JM471" in unchecked(advised(replace(timeline, counters=[reserved])))


def test_calls_of_the_driver_for_memory_are_counted() -> None:
    rows: list[Row] = [*BUSY, ("cudaMalloc", Kind.RUNTIME, HOST, 1, 2), ("cudaHostAlloc", Kind.RUNTIME, HOST, 4, 2)]
    advice = advised(made(rows))
    (finding,) = [one for one in advice.findings if one.code == "JM472"]
    assert finding.evidence["calls_per_step"] == 1
    assert finding.evidence["saves_at_most_ms_per_step"] == 2
    assert "JM472" not in codes(advised(made([*BUSY, ("cudaLaunchKernel", Kind.RUNTIME, HOST, 1, 2)])))
    assert "JM472" in unchecked(advised(made(BUSY)))


@pytest.mark.parametrize(("running", "found"), [(9, True), (5, False)])
def test_more_threads_than_cores(running: int, found: bool) -> None:
    facts = {"num_cores": "4", "num_threads": "4"}
    threads = counter("runnable threads", "threads", [running] * 5)
    advice = advised(with_facts(made(BUSY), facts, threads))
    assert ("JM473" in codes(advice)) is found
    assert "JM473" in unchecked(advised(with_facts(made(BUSY), facts)))
    assert "JM473" in unchecked(advised(with_facts(made(BUSY), facts, counter("runnable threads", "threads", [9] * 2))))


@pytest.mark.parametrize(("governors", "found"), [("powersave", True), ("performance", False)])
def test_a_governor_that_saves_power_is_a_hint(governors: str, found: bool) -> None:
    advice = advised(with_facts(made(BUSY), {"governors": governors}))
    assert ("JM474" in codes(advice)) is found
    assert "JM474" in unchecked(advised(made(BUSY)))


def test_a_quota_that_stops_threads() -> None:
    stopped = counter("stopped by the quota", "ms", [0, 3, 6, 9, 12])
    advice = advised(with_facts(made(BUSY), {}, stopped))
    (finding,) = [one for one in advice.findings if one.code == "JM475"]
    assert finding.evidence["stopped_ms_per_step"] == 2.25
    assert "JM475" not in codes(advised(with_facts(made(BUSY), {}, counter("stopped by the quota", "ms", [7] * 5))))
    assert "JM475" in unchecked(advised(made(BUSY)))


def test_the_profilers_own_cost_is_told_beyond_its_spread() -> None:
    facts = {"plain_step_ms": "5.0", "traced_step_ms": "12.0", "overhead_is_noise": "False"}
    (finding,) = [one for one in advised(with_facts(made(BUSY), facts)).findings if one.code == "JM455"]
    assert "2.4 times" in finding.message
    assert "JM455" not in codes(advised(with_facts(made(BUSY), {**facts, "overhead_is_noise": "True"})))
    assert "JM455" not in codes(advised(with_facts(made(BUSY), {**facts, "traced_step_ms": "6.0"})))
    assert "JM455" in unchecked(advised(made(BUSY)))


@pytest.mark.parametrize(
    "name",
    [
        "<built-in function print>", "<built-in method write of _io.TextIOWrapper object at 0x7f>",
        "logging/__init__.py(1467): debug", "site-packages/tqdm/std.py(1162): __iter__",
        "torch/utils/tensorboard/writer.py(357): add_scalar", "wandb/sdk/wandb_run.py(1): log",
    ],
)  # fmt: skip
def test_printing_and_logging_are_found(name: str) -> None:
    advice = advised(made([*BUSY, (name, Kind.PYTHON, HOST, 2, 3)]))
    (finding,) = [one for one in advice.findings if one.code == "JM454"]
    assert finding.evidence["saves_at_most_ms_per_step"] == 3
    assert "JM454" not in codes(advised(made([*BUSY, ("train.py(3): printer", Kind.PYTHON, HOST, 2, 3)])))
    assert "JM454" in unchecked(advised(made(BUSY)))


def test_a_run_on_the_cpu_has_no_gaps_about_devices_but_a_trace_without_one_has() -> None:
    rows: list[Row] = [("aten::mm", Kind.OPERATOR, HOST, 0, 9)]
    known, unknown = (advised(with_facts(made(rows), facts)) for facts in ({"run_device": "cpu"}, {}))
    about_devices = {"JM422", "JM428", "JM429", "JM430", "JM456", "JM470", "JM472"}
    assert unchecked(known) & about_devices == set()
    assert about_devices & set(known.checked) == set()
    assert any("7 rules are about a device, and this run was on the CPU" in gap.reason for gap in known.not_checked)
    assert about_devices <= unchecked(unknown)


def row(name: str, start: float, length: float = 0.5) -> Row:
    return (f"aten::{name}", Kind.OPERATOR, HOST, start, length)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ("to pow mean add rsqrt mul to mul", "RMSNorm"),
        ("mean sub sub pow mean add sqrt div mul add", "LayerNorm"),
        ("mean var sub add sqrt div", "LayerNorm"),
        ("mul pow mul add mul tanh add mul", "GELU (tanh)"),
        ("div erf add mul mul", "GELU"),
        ("sigmoid mul", "SiLU"),
        ("linear silu linear mul linear", "SwiGLU"),
        ("mul slice neg slice cat mul add", "The rotary embedding"),
    ],
)
def test_parts_of_a_fusion_are_found_in_their_order(names: str, what: str) -> None:
    rows = [row(name, index) for index, name in enumerate(names.split())]
    found = advised(made(rows)).findings
    assert [one.evidence["what"] for one in found if one.code in {"JM450", "JM451", "JM452"}] == [what]
    backward = [row(name, index) for index, name in enumerate(reversed(names.split()))]
    assert [one.evidence["what"] for one in advised(made(backward)).findings if one.evidence.get("what") == what] == []


@pytest.mark.parametrize(
    "names",
    [
        "sqrt add addcdiv mul add addcmul mul sqrt add", "pow mean linear rsqrt mul", "mean sub linear mean sqrt div",
        "silu linear linear linear mul", "native_layer_norm gelu silu", "pow sum sqrt add reciprocal mul",
    ],
    ids=["an optimizer", "a layer between", "statistics of two layers", "far apart", "fused ones", "a gradient's norm"],
)  # fmt: skip
def test_these_are_no_fusions(names: str) -> None:
    rows = [row(name, index) for index, name in enumerate(names.split())]
    assert codes(advised(made(rows))) & {"JM450", "JM451", "JM452"} == set()


def test_an_operator_is_in_one_chain_at_most() -> None:
    fusion = Fusion(what="x", patterns=[], use="")
    assert chains(list("abab"), steps_of("a", "b"), fusion) == [(0, 1), (2, 3)]
    assert chains(list("aab"), steps_of("a", "b"), fusion) == [(0, 2)]
    assert FUSIONS[0].what == "LayerNorm"  # it holds the parts of RMSNorm, so it is looked for first


def test_copies_out_of_views_name_who_starts_them() -> None:
    builder = TimelineBuilder()
    host, stream = builder.lane(HOST), builder.lane(DEVICE)
    for step in range(4):
        begin = step * 10 * MS
        builder.add(begin, 10 * MS, Kind.STEP, builder.name(f"ProfilerStep#{step}"), host)
        for at, (operator, kernel, length) in enumerate(
            [("aten::contiguous", f"ViewCopy{step}", 3), ("aten::conv2d", f"TransData{step}", 2)]
        ):
            link = 10 * step + at + 1
            builder.add(begin + at * MS, MS // 2, Kind.OPERATOR, builder.name(operator), host, link=link)
            name = builder.name(kernel)
            builder.add(begin + (1 + 4 * at) * MS, length * MS, Kind.KERNEL, name, stream, link=link)
    timeline = builder.build(source="made", format="ascend", device="npu")
    from jumar.timeline.model.steps import find_steps

    steps, origin = find_steps(timeline.events, timeline.names)
    advice = advised(replace(timeline, steps=steps, steps_from=origin))
    by_code = {finding.code: finding for finding in advice.findings}
    assert by_code["JM430"].evidence["forced_by"] == {"aten::conv2d": 2.0}
    assert "aten::conv2d (2.00 ms)" in by_code["JM430"].message


def test_facts_beside_a_trace_are_read_and_damage_is_none(tmp_path: Path) -> None:
    trace = tmp_path / "rank-1.json.gz"
    assert facts_beside(trace, 1) == {}
    (tmp_path / "profile.json").write_text(
        '{"format": "jumar-profile", "num_threads": 8, "ranks": {"1": {"device": "cpu", "overhead": {'
        '"plain_ms": {"median": 2.5}, "traced_ms": {"median": 4}, "is_within_noise": false}}}}'
    )
    (tmp_path / "host-rank-1.jsonl").write_text('{"num_cores": 16, "governors": ["powersave"]}\n{"t": 1}\n')
    assert facts_beside(trace, 1) == {
        "run_device": "cpu", "num_threads": "8", "num_cores": "16", "governors": "powersave", "plain_step_ms": "2.5",
        "traced_step_ms": "4", "overhead_is_noise": "False",
    }  # fmt: skip
    (tmp_path / "host-rank-1.jsonl").write_text('{"num_cores": 1')
    assert "num_cores" not in facts_beside(trace, 1)
    (tmp_path / "profile.json").write_text('["jumar-profile"]')
    assert facts_beside(trace, 1) == {}


def test_runnable_threads_and_stopped_time_come_from_the_system(tmp_path: Path) -> None:
    assert (runnable(tmp_path), throttled_ms(tmp_path)) == (None, None)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/loadavg").write_text("0.20 0.18 0.12 7/80 11206\n")
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu\n")
    (group / "cpu.stat").write_text("usage_usec 9\nnr_throttled 2\nthrottled_usec 2500\n")
    assert runnable(tmp_path) == 7
    assert throttled_ms(tmp_path) is None
    (group / "cpu.max").write_text("200000 100000\n")
    assert throttled_ms(tmp_path) == 2.5
