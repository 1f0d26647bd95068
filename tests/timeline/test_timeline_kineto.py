"""Traces of torch.profiler: names, exact times, kinds, links, ranks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from kineto_files import event, text, thread, write

from jumar.base.errors import InputError
from jumar.timeline.chrome.kinds import kind_and_side
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.reading import find_sources, read_timeline
from jumar.timeline.totals import totals

BASE = 1790857026000000000


def rows(timeline: Timeline) -> list[tuple[str, int, int]]:
    events = timeline.events
    return [
        (timeline.name_of(index), int(events.start_ns[index]), int(events.duration_ns[index]))
        for index in range(len(events))
    ]


def test_times_are_exact_nanoseconds(tmp_path: Path) -> None:
    starts = [f"{4811798850129 + index}.{index * 37 % 1000:03d}" for index in range(500)]
    body = ",\n".join(
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1,\n    "ts": {start}, "dur": 0.001\n  }}'
        for start in starts
    )
    path = tmp_path / "trace.json"
    path.write_text(f'{{"baseTimeNanoseconds": {BASE}, "traceEvents": [\n{body}\n]}}')
    timeline = read_timeline(path)
    wanted = [int(start.replace(".", "")) for start in starts]
    assert (timeline.events.start_ns + timeline.origin_ns).tolist() == [BASE + start for start in wanted]
    assert set(timeline.events.duration_ns.tolist()) == {1}


@pytest.mark.parametrize("as_text", [False, True])
def test_microseconds_since_1970_keep_their_nanoseconds(tmp_path: Path, as_text: bool) -> None:
    first, second = "1790857026123456.789", "1790857026123457.001"
    starts = [f'"{start}"' if as_text else start for start in (first, second)]
    path = tmp_path / "trace.json"
    body = ",".join(f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{one},"dur":"1.5"}}' for one in starts)
    path.write_text(f'{{"traceEvents":[{body}]}}')
    timeline = read_timeline(path)
    assert timeline.origin_ns == 1790857026123456789
    assert rows(timeline) == [("a", 0, 1500), ("a", 212, 1500)]
    assert [(row.name, row.calls, row.total_ns) for row in totals(path).rows] == [("a", 2, 3000)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("as_list", [False, True])
def test_every_way_to_write_gives_the_same(tmp_path: Path, indent: int | None, packed: bool, as_list: bool) -> None:
    dims: list[dict[str, Any]] = [{"Input Dims": [[index]]} for index in range(5)]
    events = [event(f"op{index % 3}", index * 2.0, 1.25, **dims[index % 5]) for index in range(300)]
    content = json.dumps(events, indent=indent) if as_list else text(events, indent)
    path = tmp_path / ("t.pt.trace.json.gz" if packed else "t.pt.trace.json")
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    timeline = read_timeline(path)
    assert rows(timeline) == [(f"op{index % 3}", index * 2000, 1250) for index in range(300)]
    assert timeline.details[timeline.events.detail[7]].shapes == "[[2]]"
    assert list(timeline.lost) == []


def test_arguments_become_details_links_and_numbers(tmp_path: Path) -> None:
    shapes: dict[str, Any] = {
        "Input Dims": [[8, 4], []], "Input type": ["float", "Scalar"], "Input Strides": [[4, 1], []],
        "External id": 3, "Sequence number": 12, "Module Hierarchy": "net.0",
    }  # fmt: skip
    path = write(tmp_path / "t.json", [
        thread("thread 1 (python)", 1), thread("stream 7", 7, pid=0),
        event("aten::mm", 10, 5, **shapes),
        event("cudaLaunchKernel", 11, 1, "cuda_runtime", correlation=99, **{"External id": 3}),
        event("gemm", 20, 4, "kernel", tid=7, correlation=99, device=2, **{"External id": 3}),
    ], deviceProperties=[{"id": 0, "name": "NVIDIA H200"}], distributedInfo={"rank": 3, "world_size": 8})  # fmt: skip
    timeline = read_timeline(path)
    detail = timeline.detail_of(0)
    assert detail is not None
    assert (detail.shapes, detail.dtypes, detail.module) == ("[[8, 4], []]", '["float", "Scalar"]', "net.0")
    assert dict(detail.more) == {"Input Strides": "[[4, 1], []]"}
    assert timeline.events.sequence.tolist() == [12, -1, -1]
    assert timeline.events.link.tolist() == [0, 99, 99]
    assert [(lane.name, lane.side, lane.device) for lane in timeline.lanes] == [
        ("thread 1 (python)", "host", -1), ("stream 7", "device", 2)
    ]  # fmt: skip
    assert (timeline.rank, timeline.num_ranks, timeline.device, timeline.device_name) == (3, 8, "cuda", "NVIDIA H200")
    assert set(timeline.absent) == {"stacks", "memory", "steps"}


def test_memory_events_become_counters(tmp_path: Path) -> None:
    def memory(ts: float, kind: int, device: int, allocated: int) -> dict[str, Any]:
        args = {
            "Device Type": kind,
            "Device Id": device,
            "Bytes": 8,
            "Total Allocated": allocated,
            "Total Reserved": 64,
        }
        return {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 7, "tid": 1, "ts": ts, "args": args}

    timeline = read_timeline(
        write(tmp_path / "t.json", [event("a", 0, 1), memory(3, 0, -1, 16), memory(2, 0, -1, 8), memory(4, 20, 1, 32)])
    )
    assert {(one.name, one.unit): (one.times_ns.tolist(), one.values.tolist()) for one in timeline.counters} == {
        ("memory cpu", "bytes"): ([2000, 3000], [8.0, 16.0]),
        ("memory npu:1", "bytes"): ([4000], [32.0]),
        ("reserved npu:1", "bytes"): ([4000], [64.0]),
    }


def test_counters_of_any_name_are_kept(tmp_path: Path) -> None:
    def counter(ts: float, name: str, **args: float) -> dict[str, Any]:
        return {"ph": "C", "name": name, "pid": 7, "ts": ts, "args": args}

    timeline = read_timeline(
        write(
            tmp_path / "t.json", [event("a", 0, 1), counter(1, "queue", value=3), counter(2, "load", user=1.5, sys=2)]
        )
    )
    assert {one.name: (one.times_ns.tolist(), one.values.tolist()) for one in timeline.counters} == {
        "queue": ([1000], [3.0]), "load user": ([2000], [1.5]), "load sys": ([2000], [2.0]),
    }  # fmt: skip


def test_the_users_line_comes_from_the_functions_around_or_from_the_stack(tmp_path: Path) -> None:
    python = "python_function"
    timeline = read_timeline(write(tmp_path / "t.json", [
        event("aten::mm", 20, 5), event("aten::add", 40, 1, **{"Call stack": "torch/x.py(1): f;lib/my.py(4): g;"}),
        event("aten::mul", 60, 1),
        event("train.py(41): main", 0, 50, python), event("torch/nn/modules/linear.py(9): forward", 10, 30, python),
        event("threading.py(5): run", 15, 20, python),
    ]))  # fmt: skip
    lines = {timeline.name_of(index): timeline.detail_of(index) for index in range(len(timeline.events))}
    assert {name: detail.stack for name, detail in lines.items() if detail and "::" in name} == {
        "aten::mm": "train.py:41", "aten::add": "lib/my.py:4",
    }  # fmt: skip
    assert lines["aten::mul"] is None


@pytest.mark.parametrize(
    ("category", "name", "kind", "side"),
    [
        ("cpu_op", "aten::mm", Kind.OPERATOR, "host"),
        ("cpu_op", "autograd::engine::evaluate_function: MmBackward0", Kind.OPERATOR, "host"),
        ("user_annotation", "forward", Kind.RANGE, "host"),
        ("gpu_user_annotation", "ProfilerStep#3", Kind.RANGE, "device"),
        ("user_annotation", "ProfilerStep#3", Kind.STEP, "host"),
        ("user_annotation", "Optimizer.step#AdamW.step", Kind.RANGE, "host"),
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Kind.DATA, "host"),
        ("user_annotation", "nccl:all_reduce", Kind.COLLECTIVE, "host"),
        ("cpu_op", "c10d::allreduce_", Kind.COLLECTIVE, "host"),
        ("cpu_op", "record_param_comms", Kind.COLLECTIVE, "host"),
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32", Kind.COLLECTIVE, "device"),
        ("kernel", "hcom_allReduce__428", Kind.COLLECTIVE, "device"),
        ("kernel", "ampere_sgemm", Kind.KERNEL, "device"),
        ("privateuse1_kernel", "MatMulV2", Kind.KERNEL, "device"),
        ("gpu_memcpy", "Memcpy HtoD", Kind.COPY, "device"),
        ("privateuse1_memset", "Memset", Kind.COPY, "device"),
        ("cuda_runtime", "cudaLaunchKernel", Kind.RUNTIME, "host"),
        ("cuda_runtime", "cudaStreamWaitEvent", Kind.RUNTIME, "host"),
        ("cuda_runtime", "cudaStreamSynchronize", Kind.WAIT, "host"),
        ("privateuse1_runtime", "aclrtSynchronizeStream", Kind.WAIT, "host"),
        ("cuda_driver", "cuLaunchKernel", Kind.RUNTIME, "host"),
        ("privateuse1_runtime", "aclopCompileAndExecute", Kind.COMPILE, "host"),
        ("cpu_op", "_compile.compile_inner (dynamo_timed)", Kind.COMPILE, "host"),
        ("user_annotation", "bytecode_tracing_data: compile_id=0/0", Kind.COMPILE, "host"),
        ("python_function", "torch/_dynamo/convert_frame.py(2522): __call__", Kind.COMPILE, "host"),
        ("cpu_op", "Torch-Compiled Region: 0/0", Kind.RANGE, "host"),
        ("python_function", "train.py(3): main", Kind.PYTHON, "host"),
        ("python_function", "Python GC", Kind.COLLECTOR, "host"),
        ("jumar", "gc generation 2", Kind.COLLECTOR, "host"),
        ("jumar", "recompile forward train.py:3", Kind.COMPILE, "host"),
        ("jumar", "torch.npu.Event.synchronize", Kind.WAIT, "host"),
        ("jumar", "loader fetch", Kind.OTHER, "host"),
        ("Trace", "PyTorch Profiler (0)", Kind.OTHER, "host"),
        ("overhead", "Activity Buffer Request", Kind.OTHER, "host"),
    ],
)
def test_kinds(category: str, name: str, kind: Kind, side: str) -> None:
    assert kind_and_side(category, name) == (kind, side)


def test_reading_a_value_waits_only_where_the_runtime_waits_in_it(tmp_path: Path) -> None:
    events = [
        event("aten::item", 0, 20), event("aten::_local_scalar_dense", 1, 18),
        event("aten::item", 30, 20), event("aten::mul", 60, 20),
        event("cudaStreamSynchronize", 5, 10, "cuda_runtime"), event("cudaStreamSynchronize", 65, 10, "cuda_runtime"),
    ]  # fmt: skip
    path = write(tmp_path / "t.json", events)
    timeline = read_timeline(path)
    waits = [(name, start) for (name, start, _), kind in zip(rows(timeline), timeline.events.kind, strict=True)
             if kind == Kind.WAIT]  # fmt: skip
    assert waits == [
        ("aten::item", 0), ("aten::_local_scalar_dense", 1000),
        ("cudaStreamSynchronize", 5000), ("cudaStreamSynchronize", 65000),
    ]  # fmt: skip
    assert set(totals(path).rows) == set(totals(timeline).rows)


def test_begin_and_end_events_are_paired_by_thread(tmp_path: Path) -> None:
    def mark(kind: str, name: str, ts: float, tid: int = 1) -> dict[str, Any]:
        return {"ph": kind, "name": name, "cat": "cpu_op", "pid": 7, "tid": tid, "ts": ts}

    timeline = read_timeline(write(tmp_path / "t.json", [
        mark("B", "outer", 0), mark("B", "inner", 2), mark("B", "other", 3, tid=2), mark("E", "", 5), mark("E", "", 9),
        mark("E", "", 11),
    ]))  # fmt: skip
    assert rows(timeline) == [("outer", 0, 9000), ("inner", 2000, 3000)]
    assert list(timeline.lost) == ["2 begin or end events (ph B, E) have no partner, and were passed over"]


def test_steps_come_from_marks_else_from_the_optimizer_else_there_are_none(tmp_path: Path) -> None:
    step = "Optimizer.step#SGD.step"
    marks = [event(f"ProfilerStep#{number}", number * 10, 9, "user_annotation") for number in (2, 1)]
    calls = [event(step, at, 2, "user_annotation") for at in (5, 15, 25)]
    more = [event("Optimizer.step#Adam.step", at, 1, "user_annotation") for at in (1, 3, 11, 13, 21, 23)]
    found = {}
    for name, events in {"marks": marks + calls, "optimizer": more + calls, "none": [event("a", 0, 1)]}.items():
        timeline = read_timeline(write(tmp_path / f"{name}.json", events))
        found[timeline.steps_from] = [(one.number, one.start_ns, one.end_ns) for one in timeline.steps]
    assert found == {
        "marks": [(1, 5000, 14000), (2, 15000, 24000)],
        "optimizer": [(0, 0, 6000), (1, 6000, 16000), (2, 16000, 26000)],
        "none": [],
    }


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    write(tmp_path / "host_1.123.pt.trace.json", [event("a", 0, 1)], distributedInfo={"backend": "nccl", "rank": 1})
    write(tmp_path / "rank0.json", [event("b", 0, 1)])
    (tmp_path / "notes.json").write_text('{"traces": []}')
    assert [(source.rank, source.path.name) for source in find_sources(tmp_path)] == [
        (0, "rank0.json"), (1, "host_1.123.pt.trace.json"),
    ]  # fmt: skip
    assert read_timeline(tmp_path, rank=1).names == ("a",)
    with pytest.raises(InputError, match=r"holds 2 traces .*: name one of them, or a rank"):
        read_timeline(tmp_path)
    with pytest.raises(InputError, match=r"has no trace of rank 5: its ranks are 0, 1"):
        read_timeline(tmp_path, rank=5)


def test_nothing_to_read_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist: name the trace file"):
        find_sources(tmp_path / "absent")
    with pytest.raises(InputError, match=r"holds nothing that Jumar reads: .*kineto \(torch.profiler's \*\.json"):
        find_sources(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="holds no traces that Jumar reads"):
        find_sources(tmp_path)
    with pytest.raises(InputError, match="holds no trace that Jumar reads"):
        find_sources(tmp_path / "a.txt")
