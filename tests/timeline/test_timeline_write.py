"""A trace that Jumar writes: exact times, flows, one process a rank; read back it says the same."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_files import event, write

from jumar.timeline.chrome.write import write_trace
from jumar.timeline.decompose import decompose
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, Lane, Timeline
from jumar.timeline.reading import read_timeline

REAL = Path(__file__).parent / "data" / "h200_three_steps.json.gz"
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(Kind),
        st.text(max_size=5),
        st.integers(0, 2**50),
        st.integers(0, 2**40),
        st.sampled_from([0, 1]),
    ),
    min_size=1,
    max_size=8,
)


def written(path: Path, *timelines: Timeline) -> list[dict[str, Any]]:
    write_trace(path, timelines)
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"), parse_float=Decimal)["traceEvents"]
    return found


@given(EVENTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_each_event_keeps_its_name_and_its_nanoseconds(
    tmp_path: Path, events: list[tuple[Kind, str, int, int, int]]
) -> None:
    builder = TimelineBuilder()
    lanes = [builder.lane(Lane("main", "7", "host")), builder.lane(Lane("stream", "0", "device", 0))]
    for kind, name, start, duration, lane in events:
        builder.add(kind=kind, name=builder.name(name), lane=lanes[lane], start_ns=start, duration_ns=duration)
    timeline = builder.build(source="x", format="jumar")
    found = [one for one in written(tmp_path / "t.json", timeline) if one["ph"] == "X"]
    first = min(start for _, _, start, _, _ in events)
    expected = [(name, start - first, duration, lane > 0) for _, name, start, duration, lane in events]
    times = [(one["name"], one["ts"] * 1000, one["dur"] * 1000, one["tid"] > 1000) for one in found]
    assert sorted(times) == sorted(expected)


def test_a_launch_flows_to_its_kernel_and_a_forward_to_its_backward(tmp_path: Path) -> None:
    source = write(tmp_path / "t.json", [
        event("aten::mm", 10, 5, **{"Sequence number": 3}),
        event("cudaLaunchKernel", 12, 1, "cuda_runtime", correlation=9),
        event("gemm", 20, 4, "kernel", tid=7, correlation=9),
        event("MmBackward0", 40, 5, tid=2, **{"Sequence number": 3}),
    ])  # fmt: skip
    found = written(tmp_path / "out.json", read_timeline(source))
    flows = [(one["ph"], one["name"], int(one["ts"]), one.get("bp")) for one in found if one["ph"] in "sf"]
    assert flows == [
        ("s", "launch", 2, None), ("f", "launch", 10, "e"),
        ("s", "forward to backward", 0, None), ("f", "forward to backward", 30, "e"),
    ]  # fmt: skip
    identities = [one["id"] for one in found if one["ph"] in "sf"]
    assert [identities.count(one) for one in identities] == [2, 2, 2, 2]


def test_a_real_trace_read_back_has_the_same_steps_and_parts(tmp_path: Path) -> None:
    before = read_timeline(REAL)
    assert write_trace(tmp_path / "t.json.gz", [before]) == len(before.events)
    after = read_timeline(tmp_path / "t.json.gz")
    one, other = decompose(before), decompose(after)
    assert [step.step.duration_ns for step in other.steps] == [step.step.duration_ns for step in one.steps]
    assert [step.parts for step in other.steps] == [step.parts for step in one.steps]
    assert np.array_equal(np.sort(after.events.duration_ns), np.sort(before.events.duration_ns))


def test_ranks_are_processes_at_their_true_distance(tmp_path: Path) -> None:
    ranks = []
    for rank, origin in enumerate((10**18, 10**18 + 5000)):
        builder = TimelineBuilder()
        lane = builder.lane(Lane("main", "7", "host"))
        builder.add(kind=Kind.OPERATOR, name=builder.name("aten::mm"), lane=lane, start_ns=origin, duration_ns=7)
        ranks.append(builder.build(source="x", format="jumar", rank=rank))
    found = written(tmp_path / "t.json", *ranks)
    names = {one["pid"]: one["args"]["name"] for one in found if one["name"] == "process_name"}
    assert [(names[one["pid"]], one["ts"]) for one in found if one["ph"] == "X"] == [
        ("rank 0", Decimal("0.000")), ("rank 1", Decimal("5.000")),
    ]  # fmt: skip


def test_a_packed_trace_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    timeline = read_timeline(REAL)
    for name in ("a.json.gz", "b.json.gz"):
        write_trace(tmp_path / name, [timeline])
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))["displayTimeUnit"] == "ns"


def test_nothing_is_left_of_a_trace_that_fails(tmp_path: Path) -> None:
    def broken() -> Any:
        yield read_timeline(REAL)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_trace(tmp_path / "t.json", broken())
    assert list(tmp_path.iterdir()) == []
