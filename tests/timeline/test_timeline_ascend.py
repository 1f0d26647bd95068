"""What the emulated `torch_npu.profiler` writes is read back: counts and totals are those of what was run."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import kineto_files
import numpy as np
import pytest
from emulated_profile import NUM_LINEAR, NUM_STEPS, write

from jumar.base.errors import InputError
from jumar.timeline.formats import ascend
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.reading import one_source
from jumar.timeline.vendor import words

pytestmark = pytest.mark.slow  # a network is trained and profiled first


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def timeline(folder: Path) -> Timeline:
    return read(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / folder.name)


def read(place: Path) -> Timeline:
    (source,) = ascend.find(place)
    return ascend.read(source)


def output(folder: Path) -> Path:
    return folder / "ASCEND_PROFILER_OUTPUT"


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (output(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def named(timeline: Timeline, kind: Kind) -> Counter[str]:
    return Counter(timeline.name_of(int(row)) for row in np.flatnonzero(timeline.of(kind)))


def test_counts_are_those_of_what_was_run(timeline: Timeline) -> None:
    operators, kernels = named(timeline, Kind.OPERATOR), named(timeline, Kind.KERNEL)
    assert operators["aten::addmm"] == NUM_STEPS * NUM_LINEAR
    assert operators["aten::threshold_backward"] == NUM_STEPS * NUM_LINEAR
    assert sum(number for name, number in kernels.items() if name.startswith("aclnnAddmm")) == NUM_STEPS * NUM_LINEAR
    assert named(timeline, Kind.COPY).total() == 2 * NUM_STEPS  # the batch in, the loss out
    assert [step.number for step in timeline.steps] == [2, 3]
    assert timeline.steps_from == "marks"
    assert (timeline.device, timeline.device_name, timeline.rank) == ("npu", "Ascend910B1", 0)


def test_totals_are_those_of_the_files(folder: Path, timeline: Timeline) -> None:
    rows = table(folder, "kernel_details.csv")
    kernels = np.flatnonzero(timeline.of(Kind.KERNEL))
    assert len(kernels) == len(rows)
    assert int(timeline.events.duration_ns[kernels].sum()) == sum(
        int(Decimal(row["Duration(us)"]) * 1000) for row in rows
    )
    begins = sorted(int(Decimal(row["Start Time(us)"].strip()) * 1000) for row in rows)
    assert sorted((timeline.events.start_ns[kernels] + timeline.origin_ns).tolist()) == begins
    memory = next(counter for counter in timeline.counters if counter.name == "memory npu:0")
    assert len(memory.values) == sum(row["Component"] == "PTA" for row in table(folder, "memory_record.csv"))
    assert timeline.lost == ()
    assert timeline.absent == {}


def test_a_kernel_knows_its_shapes_formats_blocks_and_unit(timeline: Timeline) -> None:
    row = next(row for row in np.flatnonzero(timeline.of(Kind.KERNEL)) if "Addmm" in timeline.name_of(int(row)))
    detail = timeline.detail_of(int(row))
    assert detail is not None
    more = dict(detail.more)
    assert json.loads(detail.shapes)[0] == [4, 8]
    assert (more["Accelerator Core"], more["Op Type"], more["Input Formats"]) == ("AI_CORE", "MatMulV3", "ND;ND;ND")
    assert int(more["Block Dim"]) >= 1
    assert not words.is_ai_cpu(detail)


def test_an_operator_its_launch_and_its_kernels_share_a_link(timeline: Timeline) -> None:
    for row in np.flatnonzero(timeline.of(Kind.KERNEL)):
        link = timeline.events.link[row]
        assert link != 0
        kinds = set(timeline.events.kind[timeline.events.link == link].tolist())
        assert kinds >= {int(Kind.OPERATOR), int(Kind.RUNTIME), int(Kind.KERNEL)}


def test_operators_know_the_users_line_and_their_shapes(timeline: Timeline) -> None:
    rows = [row for row in np.flatnonzero(timeline.of(Kind.OPERATOR)) if timeline.name_of(int(row)) == "aten::addmm"]
    details = [timeline.detail_of(int(row)) for row in rows]
    assert all(detail is not None and "emulated_profile.py:" in detail.stack for detail in details)
    assert all(detail is not None and detail.shapes for detail in details)


def test_owners_hold_the_whole_peak(timeline: Timeline) -> None:
    (allocations,) = timeline.allocations
    assert allocations.device == "npu:0"
    assert sum(owner.size_bytes for owner in allocations.owners) == allocations.peak_bytes > 0
    assert allocations.peak_ns is not None
    assert 0 <= allocations.peak_ns <= int(timeline.events.end_ns.max())
    assert 0 <= allocations.fragmentation <= 1


@pytest.mark.parametrize("name", ["trace_view.json", "kernel_details.csv"])
def test_a_lone_file_is_read(folder: Path, timeline: Timeline, name: str) -> None:
    lone = read(output(folder) / name)
    assert named(lone, Kind.KERNEL) == named(timeline, Kind.KERNEL)
    assert set(lone.absent) >= {"memory"}


def test_without_the_trace_kernels_and_steps_come_from_the_table(copy: Path, timeline: Timeline) -> None:
    (output(copy) / "trace_view.json").unlink()
    found = read(copy)
    assert named(found, Kind.KERNEL) == named(timeline, Kind.KERNEL)
    assert [step.number for step in found.steps] == [2, 3]
    assert found.steps_from == "vendor"
    assert set(found.absent) == {"stacks", "host"}


def test_a_trace_that_is_cut_short_is_filled_up_from_the_table(copy: Path, timeline: Timeline) -> None:
    trace = output(copy) / "trace_view.json"
    content = trace.read_bytes()
    trace.write_bytes(content[: content.rindex(b"aclnnAddmm") + 3])
    found = read(copy)
    assert named(found, Kind.KERNEL).total() == named(timeline, Kind.KERNEL).total()
    assert any(sentence.startswith("trace_view.json: ") for sentence in found.lost)
    assert any("are taken from the table" in sentence for sentence in found.lost)


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")


def test_tables_that_tell_otherwise_are_named(copy: Path) -> None:
    statistic = table(copy, "op_statistic.csv")[0]
    text = f"{statistic['OP Type']},{statistic['Core Type']},{statistic['Count']}"
    rewrite(output(copy) / "op_statistic.csv", text, f"{statistic['OP Type']},{statistic['Core Type']},999")
    rewrite(output(copy) / "step_trace_time.csv", "\n0,2,", "\n0,2,1")
    rewrite(output(copy) / "operator_details.csv", "aten::addmm,", "aten::other,")
    lost = read(copy).lost
    assert len(lost) == 3
    assert "kernel_details.csv and op_statistic.csv disagree on operator type" in lost[0]
    assert "trace_view.json and operator_details.csv disagree on operator `aten::addmm`" in lost[1]
    assert "step_trace_time.csv and kernel_details.csv disagree on the time of computing of 1 of 2 steps" in lost[2]


def test_a_kernel_that_no_event_is_counts_as_lost(copy: Path) -> None:
    details = output(copy) / "kernel_details.csv"
    start = table(copy, "kernel_details.csv")[0]["Start Time(us)"].strip()
    rewrite(details, start, f"{Decimal(start) + 1}")
    lost = read(copy).lost
    assert any("1 kernels of kernel_details.csv" in sentence and "left out" in sentence for sentence in lost)


def test_of_a_profile_of_jumars_the_vendors_trace_is_the_one_of_the_rank(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "npu-rank-0" / folder.name)
    trace = kineto_files.write(tmp_path / "rank-0.json", [kineto_files.event("gc generation 0", 0, 1, "jumar")])
    with pytest.raises(InputError, match="holds 2 traces"):
        one_source(tmp_path)
    (tmp_path / "profile.json").write_text('{"format": "jumar-profile"}')
    assert one_source(tmp_path).format == "ascend"
    assert one_source(trace).path == trace
