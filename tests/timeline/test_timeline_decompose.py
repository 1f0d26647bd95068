"""Parts of a step: exclusive, named, and they add up exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_files import Event, event, thread, write

from jumar.timeline.decompose import HOST_ONLY, WITH_DEVICE, Decomposition, decompose
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Kind, Lane, StepWindow
from jumar.timeline.reading import read_timeline

NODE = "autograd::engine::evaluate_function: MmBackward0"


def numbered(name: str, ts: float, dur: float, sequence: int, **more: Any) -> Event:
    return event(name, ts, dur, **(more | {"Sequence number": sequence}))


def parts(path: Path, events: list[Event]) -> Decomposition:
    return decompose(read_timeline(write(path / "t.json", events)))


def step(number: int, ts: float, dur: float) -> Event:
    return event(f"ProfilerStep#{number}", ts, dur, "user_annotation")


def in_us(numbers: Any) -> dict[str, float]:
    return {name: value / 1000 for name, value in numbers.items() if value}


def test_a_step_on_the_host(tmp_path: Path) -> None:
    found = parts(tmp_path, [
        step(1, 0, 100),
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10, "user_annotation"),
        event("aten::stack", 2, 5),
        event("aten::linear", 12, 8), numbered("aten::addmm", 13, 6, 4),
        event("_compile.compile_inner (dynamo_timed)", 21, 4),
        numbered(NODE, 30, 10, 4), numbered(NODE, 42, 8, 3), event("aten::mm", 43, 6),
        event("Python GC", 50, 5, "python_function"),
        event("Optimizer.step#SGD.step", 60, 20, "user_annotation"), event("aten::add_", 62, 10),
        event("aten::sum", 85, 5),
    ])  # fmt: skip
    assert found.steps_from == "marks"
    assert not found.has_device
    assert in_us(found.steps[0].parts) == {
        "data": 10, "forward": 8, "compile": 4, "backward": 20, "collector": 5, "optimizer": 20, "operators": 5,
        "host": 28,
    }  # fmt: skip
    assert set(found.words) == set(found.steps[0].parts) == set(HOST_ONLY)
    assert found.steps[0].device_idle_ns is None


def test_two_backward_passes_do_not_take_the_time_between_them(tmp_path: Path) -> None:
    found = parts(tmp_path, [step(1, 0, 1000), event(NODE, 0, 10), event(NODE, 15, 10), event(NODE, 500, 10)])
    assert in_us(found.steps[0].parts) == {"backward": 35, "host": 965}


def test_an_operator_after_the_optimizer_is_not_forward(tmp_path: Path) -> None:
    found = parts(tmp_path, [
        step(1, 0, 100), numbered("aten::mm", 0, 10, 1), numbered(NODE, 20, 10, 1), numbered("aten::item", 50, 5, 2),
        step(2, 100, 100), numbered("aten::mm", 100, 10, 2), numbered(NODE, 120, 10, 2),
    ])  # fmt: skip
    assert in_us(found.steps[0].parts) == {"forward": 10, "backward": 10, "operators": 5, "host": 75}


def test_collectives_of_the_host_are_hidden_behind_operators_of_other_threads(tmp_path: Path) -> None:
    found = parts(tmp_path, [
        step(1, 0, 100), event("aten::mm", 10, 20), event("gloo:all_reduce", 20, 30, "user_annotation", tid=2),
    ])  # fmt: skip
    assert in_us(found.steps[0].parts) == {"operators": 20, "collective": 20, "host": 60}
    assert found.steps[0].hidden_collective_ns == 10_000


def device_events() -> list[Event]:
    launch, kernel = "cudaLaunchKernel", {"device": 0}
    return [
        thread("stream 7", 7, pid=0),
        step(1, 0, 200),
        event("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 20, "user_annotation"),
        event("forward", 20, 20, "user_annotation"), event(launch, 22, 2, "cuda_runtime", correlation=1),
        event(NODE, 50, 20), event(launch, 55, 2, "cuda_runtime", correlation=2),
        event("Optimizer.step#Adam.step", 80, 20, "user_annotation"),
        event(launch, 85, 2, "cuda_runtime", correlation=3),
        event("cudaStreamSynchronize", 110, 80, "cuda_runtime"),
        event("gemm", 30, 10, "kernel", tid=7, correlation=1, **kernel),
        event("gemm_backward", 60, 30, "kernel", tid=7, correlation=2, **kernel),
        event("ncclDevKernel_AllReduce", 80, 40, "kernel", tid=9, **kernel),
        event("adam", 120, 10, "kernel", tid=7, correlation=3, **kernel),
        event("unknown", 130, 5, "kernel", tid=7, correlation=99, **kernel),
        event("Memcpy DtoH", 132, 10, "gpu_memcpy", tid=7, **kernel),
        event("ProfilerStep#1", 30, 112, "gpu_user_annotation", tid=7),
    ]  # fmt: skip


def test_a_step_with_a_device(tmp_path: Path) -> None:
    found = parts(tmp_path, device_events())
    assert found.has_device
    assert in_us(found.steps[0].parts) == {
        "forward": 10, "backward": 30, "optimizer": 10, "operators": 5, "collective": 30, "copy": 7,
        "data": 20, "wait": 48, "host": 40,
    }  # fmt: skip
    assert set(found.steps[0].parts) == set(WITH_DEVICE) == set(found.words)
    assert found.steps[0].hidden_collective_ns == 10_000
    assert found.steps[0].device_idle_ns == 108_000


def test_without_steps_it_is_said_and_the_whole_is_still_taken_apart(tmp_path: Path) -> None:
    found = parts(tmp_path, [event("aten::mm", 5, 10), event("PyTorch Profiler (0)", 0, 900, "Trace", tid="x")])
    assert (found.steps_from, list(found.steps), dict(found.steady)) == ("none", [], {})
    assert in_us(found.whole.parts) == {"operators": 10}
    assert dict(found.first_excess_ns) == {}


def test_the_first_step_stands_against_the_steady_ones(tmp_path: Path) -> None:
    lengths = [500, 100, 104, 101, 140]
    found = parts(tmp_path, [step(index, index * 1000, length) for index, length in enumerate(lengths)])
    steady = found.steady["step"]
    assert (steady.median_ns, steady.least_ns, steady.greatest_ns, steady.deviation_ns) == (
        102_500,
        100_000,
        140_000,
        2000,
    )
    assert found.first_excess_ns["step"] == found.first_excess_ns["host"] == 397_500


NAMES = ["forward", "backward", NODE, "Optimizer.step#A.step", "aten::mm", "enumerate(DataLoader)#x"]
LANES = [
    Lane("main", "1", "host"),
    Lane("pt_autograd_0", "1", "host"),
    Lane("s 7", "0", "device", 0),
    Lane("s 8", "0", "device", 0),
]
ANY_EVENT = st.tuples(
    st.integers(0, 90), st.integers(-2, 40), st.sampled_from(list(Kind)), st.integers(0, len(NAMES) - 1),
    st.integers(0, len(LANES) - 1), st.integers(0, 3), st.integers(-1, 3),
)  # fmt: skip


@pytest.mark.parametrize("num_lanes", [2, 4])
@given(st.lists(ANY_EVENT, max_size=30), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), max_size=4))
def test_the_parts_of_any_step_add_up_exactly(
    num_lanes: int, items: list[tuple[Any, ...]], windows: list[tuple[int, int]]
) -> None:
    builder = TimelineBuilder()
    for name in NAMES:
        builder.name(name)
    for start, length, kind, name, lane, link, sequence in items:
        where = builder.lane(LANES[lane % num_lanes])
        builder.add(start, length, kind, name, where, link=link, sequence=sequence)
    steps = [StepWindow(index, start, start + length) for index, (start, length) in enumerate(windows)]
    found = decompose(builder.build(source="", format="kineto", steps=steps, steps_from="marks"))
    for one in (*found.steps, found.whole):
        assert sum(one.parts.values()) == one.step.duration_ns
        assert min(one.parts.values()) >= 0
        assert set(one.parts) == set(found.words)
        if one.device_idle_ns is not None:
            assert 0 <= one.device_idle_ns <= one.step.duration_ns
    assert len(found.steps) == len(windows)


def test_the_page_has_the_words_of_each_part() -> None:
    page = (Path(__file__).parents[2] / "docs" / "timeline.md").read_text("utf-8")
    for words in (HOST_ONLY, WITH_DEVICE):
        assert "".join(f"| `{name}` | {meaning} |\n" for name, meaning in words.items()) in page
