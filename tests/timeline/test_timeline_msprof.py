"""Folders of CANN's msprof, newer and older, are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.base.errors import InputError
from jumar.timeline.formats import ascend, msprof
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.vendor import words

PROF = "PROF_000001_20230628101435646_FKFLNPEPPRRCFCBA"
SUMMARY = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
    "Task Wait Time(us),Block Dim,Input Shapes,Input Data Types,Input Formats,aic_mac_ratio\n"
    '1,4,9,6,MatMul_1,MatMulV2,static,AI_CORE,"100.500\t",2.25,0,24,"""16,16;16,16""",FLOAT16;FLOAT16,FRACTAL_NZ;ND,0.5\n'
    '1,4,10,6,Unique_2,Unique,N/A,AI_CPU,"110.000\t",30,0,1,"""64""",INT64,ND,N/A\n'
)
STATISTIC = "Device_id,OP Type,Core Type,Count,Total Time(us)\n1,MatMulV2,AI_CORE,1,2.25\n1,Unique,AI_CPU,1,30\n"


def read(place: Path) -> Timeline:
    (source,) = msprof.find(place)
    return msprof.read(source)


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(content, "utf-8")
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return write(
        tmp_path / PROF / "mindstudio_profiler_output",
        op_summary_20230628_csv=SUMMARY, op_statistic_20230628_csv=STATISTIC,
    )  # fmt: skip


def test_kernels_of_the_summary_are_the_events(output: Path, tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.format == "msprof"
    assert [found.name_of(row) for row in range(2)] == ["MatMul_1", "Unique_2"]
    assert found.events.duration_ns.tolist() == [2250, 30_000]
    assert [words.is_ai_cpu(found.detail_of(row)) for row in range(2)] == [False, True]
    detail = found.detail_of(0)
    assert detail is not None
    assert dict(detail.more).items() >= {("aic_mac_ratio", "0.5"), ("Input Formats", "FRACTAL_NZ;ND")}
    assert found.lanes[0].device == 1
    assert list(found.lost) == []
    assert set(found.absent) == {"stacks", "host", "memory", "steps"}


def test_the_trace_is_the_source_and_the_summary_describes_it(output: Path, tmp_path: Path) -> None:
    trace = [
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "name": "process_labels", "pid": 7, "tid": 0, "args": {"labels": "NPU 1"}},
        {"ph": "M", "name": "process_name", "pid": 8, "tid": 0, "args": {"name": "CANN"}},
        {"ph": "X", "name": "Node@launch", "pid": 8, "tid": 3, "ts": "99.000", "dur": 0.5, "args": {}},
        {
            "ph": "X",
            "name": "MatMul_1",
            "pid": 7,
            "tid": 6,
            "ts": "100.500",
            "dur": 2.25,
            "args": {"Task Type": "AI_CORE"},
        },
        {
            "ph": "X",
            "name": "EVENT_WAIT",
            "pid": 7,
            "tid": 6,
            "ts": "105.0",
            "dur": 1,
            "args": {"Task Type": "EVENT_WAIT"},
        },
        {"ph": "s", "cat": "HostToDevice", "id": "5", "pid": 8, "tid": 3, "ts": "99.000"},
        {"ph": "f", "cat": "HostToDevice", "id": "5", "pid": 7, "tid": 6, "ts": "100.500"},
    ]
    write(output, msprof_20230628_json=json.dumps(trace))
    found = read(tmp_path)
    assert found.events.kind.tolist() == [Kind.RUNTIME, Kind.KERNEL, Kind.OTHER]
    assert found.events.link.tolist()[0] == found.events.link.tolist()[1] != 0
    detail = found.detail_of(1)
    assert detail is not None
    assert detail.shapes == "[[16, 16], [16, 16]]"
    assert list(found.lost) == [
        "1 kernels of op_summary_20230628.csv, 30.000 us, are no events of msprof_20230628.json: they are left out."
    ]


def test_slices_of_a_trace_are_one_trace(tmp_path: Path) -> None:
    name = {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Ascend Hardware"}}
    event = {"ph": "X", "name": "Add", "pid": 7, "tid": 6, "ts": "5.0", "dur": 1, "args": {"Task Type": "AI_CORE"}}
    write(
        tmp_path / PROF / "mindstudio_profiler_output",
        msprof_slice_0_2023_json=json.dumps([event]),
        msprof_slice_1_2023_json=json.dumps([name, event | {"ts": "9.0"}]),
    )  # fmt: skip
    assert read(tmp_path).events.kind.tolist() == [Kind.KERNEL, Kind.KERNEL]


def test_older_folders_have_a_source_for_each_device(tmp_path: Path) -> None:
    for device in (0, 1):
        write(tmp_path / PROF / f"device_{device}" / "summary", op_summary_0_1_csv=SUMMARY.replace("Device_id,", "x,"))
    sources = msprof.find(tmp_path)
    assert [source.rank for source in sources] == [0, 1]
    assert {msprof.read(sources[1]).lanes[0].device} == {1}


def test_a_folder_inside_that_of_torch_npu_is_left_to_it(tmp_path: Path) -> None:
    framework = tmp_path / "host_1_ascend_pt"
    inside = write(framework / PROF / "mindstudio_profiler_output", op_summary_20230628_csv=SUMMARY)
    assert len(msprof.find(tmp_path)) == 1
    write(framework / "ASCEND_PROFILER_OUTPUT", kernel_details_csv=SUMMARY)
    assert msprof.find(tmp_path) == []
    assert len(ascend.find(tmp_path)) == 1
    assert len(msprof.find(inside.parent)) == 1


def test_iterations_of_a_graph_are_its_steps(output: Path, tmp_path: Path) -> None:
    write(
        output,
        step_trace_20230628_csv="Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us)\n"
        "1,1,101,120,150,60\n1,2,N/A,N/A,200,50\n",
    )
    found = read(tmp_path)
    assert [(step.number, step.start_ns, step.end_ns) for step in found.steps] == [(1, 0, 60_000), (2, 60_000, 110_000)]
    ranges = [found.name_of(int(row)) for row in found.of(Kind.RANGE).nonzero()[0]]
    assert ranges == ["iteration interval", "forward and backward", "step tail"]


def test_iterations_in_another_clock_are_left_out(output: Path, tmp_path: Path) -> None:
    write(
        output,
        step_trace_20230628_csv="Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us)\n"
        "1,9000,9001,9002,3\n",
    )
    found = read(tmp_path)
    assert found.steps == ()
    assert any("another clock" in sentence for sentence in found.lost)


def test_memory_queues_and_ai_cpu_are_read(tmp_path: Path) -> None:
    write(
        tmp_path / PROF / "mindstudio_profiler_output",
        npu_mem_2023_csv="Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)\n0,app,0,4,4,10\n",
        aicpu_2023_csv="Device_id,Timestamp(us),Node,Compute_time(us),Task_time(us),Total_time(us)\n0,20,Unique,4,5,6\n",
        aicpu_mi_2023_csv="Device_id,Node Name,Start Time(us),End Time(us),Queue Size\n0,GetNext,30,31,0\n",
    )
    found = read(tmp_path)
    assert {counter.name: counter.values.tolist() for counter in found.counters} == {
        "ddr npu:0 app": [0.0], "hbm npu:0 app": [4096.0], "loader queue": [0.0],
    }  # fmt: skip
    assert [(found.name_of(row), found.events.kind[row]) for row in range(2)] == [
        ("Unique", Kind.KERNEL), ("GetNext", Kind.DATA),
    ]  # fmt: skip


def test_files_that_were_copied_elsewhere_are_found(tmp_path: Path) -> None:
    write(tmp_path / "copied", op_summary_20230628_csv=SUMMARY)
    assert [source.path.name for source in msprof.find(tmp_path)] == ["copied"]


def test_a_folder_without_events_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / PROF / "mindstudio_profiler_output", op_statistic_2023_csv=STATISTIC)
    with pytest.raises(InputError, match="holds no events that can be read"):
        read(folder.parent)
