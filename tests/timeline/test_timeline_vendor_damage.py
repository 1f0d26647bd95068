"""No damage to a vendor's files is a traceback: a timeline that says what it lost, or one sentence."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mutations import mutated
from stored_profile import write_database

from jumar.base.errors import InputError
from jumar.timeline.formats import ascend, memory_snapshot, mindspore, msprof
from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import FormatModule

MINDSPORE = Path(__file__).parents[1] / "fixtures" / "timeline" / "mindspore"
NUM_SEEDS = 40
"""Damages of each file."""
KERNELS = (
    "Step Id,Device_id,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,"
    "Input Shapes\n"
    '1,0,1,2,Add_1,Add,AI_VECTOR_CORE,100.000\t,2.5,8,"8,4;8,4"\n1,0,2,2,Cast_2,Cast,AI_CPU,110.000\t,3.5,8,"8,4"\n'
)
TRACE = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Ascend Hardware"}},
    {"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "Python"}},
    {"ph": "X", "name": "ProfilerStep#1", "pid": 2, "tid": 5, "ts": "90.0", "dur": 30, "cat": "cpu_op", "args": {}},
    {"ph": "X", "name": "aten::add", "pid": 2, "tid": 5, "ts": "91.0", "dur": 3, "cat": "cpu_op",
     "args": {"Sequence number": 3, "Input Dims": "8,4;8,4", "Input type": "float;float", "Call stack": "a.py(3): f"}},
    {"ph": "X", "name": "Add_1", "pid": 1, "tid": 2, "ts": "100.0", "dur": 2.5, "args": {"Task Type": "AI_CORE"}},
    {"ph": "X", "name": "Cast_2", "pid": 1, "tid": 2, "ts": "110.0", "dur": 3.5, "args": {"Task Type": "AI_CPU"}},
    {"ph": "s", "cat": "async_npu", "id": "1", "pid": 2, "tid": 5, "ts": "91.0"},
    {"ph": "f", "cat": "async_npu", "id": "1", "pid": 1, "tid": 2, "ts": "100.0"},
    {"ph": "C", "name": "AI Core Freq", "pid": 3, "tid": 0, "ts": "100.0", "args": {"MHz": 1800}},
]  # fmt: skip
COMMUNICATION = {
    "step1": {"collective": {"hcom_x@g": {
        "Communication Time Info": {"Start Timestamp(us)": 1.0, "Elapse Time(ms)": 2.0},
        "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 3.0, "Transit Time(ms)": 1.0}}}}}
}  # fmt: skip
TABLES = {
    "kernel_details.csv": KERNELS,
    "trace_view.json": json.dumps(TRACE),
    "op_statistic.csv": "Device_id,OP Type,Count,Total Time(us)\n0,Add,1,2.5\n0,Cast,1,3.5\n",
    "api_statistic.csv": "Device_id,Level,API Name,Time(us),Count\nhost,acl,aclnnAdd,5,1\n",
    "operator_details.csv": 'Name,Call Stack,Host Total Duration(us)\naten::add,"a.py(3): f;\nb.py(4): g",3\n',
    "step_trace_time.csv": "Device_id,Step,Computing,Free\n0,1,6.0,3\n",
    "memory_record.csv": "Component,Timestamp(us),Total Allocated(MB),Device Type\nPTA,100\t,1.5,NPU:0\n",
    "operator_memory.csv": "Name,Size(KB),Allocation Time(us),Release Time(us),Device Type\nadd,4,100\t,101\t,NPU:0\n",
    "communication.json": json.dumps(COMMUNICATION),
    "communication_matrix.json": json.dumps(COMMUNICATION),
    "data_preprocess.csv": "Device_id,Timestamp(us),Node,Total_time(us)\n0,110,Cast,3.5\n",
    "l2_cache.csv": "Device Id,Stream Id,Task Id,Hit Rate,Victim Rate,Op Name\n0,2,1,0.5,0.1,Add_1\n",
    "profiler_info_1.json": '{"rank_id": 1, "config": {"with_stack": true}}',
}
FRAMES = [{"filename": "a.py", "line": 3, "name": "f"}]
SNAPSHOT = {
    "segments": [{"device": 0, "address": 512, "total_size": 4096, "blocks": [
        {"address": 512, "size": 64, "state": "active_allocated", "frames": FRAMES},
        {"address": 576, "size": 4032, "state": "inactive", "frames": []}]}],
    "device_traces": [[
        {"action": "alloc", "addr": 512, "size": 64, "time_us": 5, "frames": FRAMES},
        {"action": "free_completed", "addr": 9, "size": 64, "time_us": 6, "frames": []}]],
}  # fmt: skip


def ascend_folder(place: Path) -> Path:
    output = place / "h_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for name, content in TABLES.items():
        (output / name).write_text(content, "utf-8")
    return place


def database_folder(place: Path) -> Path:
    output = place / "h_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    write_database(output / "ascend_pytorch_profiler_0.db")
    return place


def msprof_folder(place: Path) -> Path:
    output = place / "PROF_000001_20230628101435646_FKFL" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    (output / "op_summary_2023.csv").write_text(KERNELS, "utf-8")
    (output / "msprof_2023.json").write_text(json.dumps(TRACE), "utf-8")
    (output / "step_trace_2023.csv").write_text(
        "Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us)\n1,92,101,120,30\n", "utf-8"
    )
    (output / "aicpu_mi_2023.csv").write_text("Node Name,Start Time(us),End Time(us),Queue Size\nG,93,94,2\n", "utf-8")
    (output / "npu_mem_2023.csv").write_text("Device_id,event,ddr(KB),hbm(KB),timestamp(us)\n0,app,0,4,95\n", "utf-8")
    return place


def mindspore_folder(place: Path) -> Path:
    shutil.copytree(MINDSPORE / "minddata", place, dirs_exist_ok=True)
    (place / "step_trace_raw_0_detail_time.csv").write_text(
        "step_num,start_point,end_point,fp_point,bp_point\n1,10,20,11,19\n-,1,2,3,4\n", "utf-8"
    )
    (place / "minddata_pipeline_raw_0.csv").write_text(
        'op_id,op_type,output_queue_size,output_queue_length,sample_interval\n0,Batch,"[4, 2]",16,10\n', "utf-8"
    )
    (place / "minddata_aicpu_0.txt").write_text("node_name start_time end_time queue_size\nGetNext 5 6 3\n", "utf-8")
    return place


def snapshot_folder(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    (place / "memory.pickle").write_bytes(pickle.dumps(SNAPSHOT))
    return place


KINDS: dict[str, tuple[FormatModule, Callable[[Path], Path]]] = {
    "ascend": (ascend, ascend_folder), "database": (ascend, database_folder), "msprof": (msprof, msprof_folder),
    "mindspore": (mindspore, mindspore_folder), "snapshot": (memory_snapshot, snapshot_folder),
}  # fmt: skip


def check(timeline: Timeline) -> None:
    """Whatever was read is a timeline that analyses can take."""
    events = timeline.events
    assert (np.diff(events.start_ns) >= 0).all()
    assert (events.duration_ns >= 0).all()
    assert len(events) == 0 or (events.name.max() < len(timeline.names) and events.lane.max() < len(timeline.lanes))
    assert all(step.end_ns >= step.start_ns for step in timeline.steps)
    assert all(len(counter.times_ns) == len(counter.values) for counter in timeline.counters)
    assert all(sentence.endswith(".") for sentence in timeline.lost)


def read_all(module: FormatModule, place: Path) -> int:
    num_read = 0
    for source in module.find(place):
        try:
            check(module.read(source))
        except InputError:
            continue
        num_read += 1
    return num_read


@pytest.mark.slow  # 1000 reads
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_a_traceback(tmp_path: Path, kind: str) -> None:
    module, write = KINDS[kind]
    place = write(tmp_path)
    files = [path for path in sorted(place.rglob("*")) if path.is_file()]
    num_read = 0
    for path in files:
        whole = path.read_bytes()
        for seed in range(NUM_SEEDS):
            path.write_bytes(mutated(path, seed))
            num_read += read_all(module, place)
            path.write_bytes(whole)
    assert num_read > 0


@pytest.mark.parametrize("kind", KINDS)
def test_sound_folders_lose_nothing(tmp_path: Path, kind: str) -> None:
    module, write = KINDS[kind]
    lost = [sentence for source in module.find(write(tmp_path)) for sentence in module.read(source).lost]
    expected = {
        "ascend": ["communication.json has 1 collectives of 2000.000 us that no event of trace_view.json is."],
        "database": ["ascend_pytorch_profiler_0.db, table TASK: 1 of 3 entries were passed over: their begin or end is "
                     "no number."],
        "mindspore": ["step_trace_raw_0_detail_time.csv: its 1 steps are in another clock than the events, so they are "
                      "left out."],
    }  # fmt: skip
    assert lost == expected.get(kind, [])


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_alone_is_read_or_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    module, write = KINDS[kind]
    place = write(tmp_path / "whole")
    for path in (path for path in sorted(place.rglob("*")) if path.is_file()):
        alone = tmp_path / "alone" / path.name / path.relative_to(place)
        alone.parent.mkdir(parents=True)
        shutil.copy(path, alone)
        read_all(module, tmp_path / "alone" / path.name)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"\xff\xfe", b"[", b"{", b"a,b\n1,2\n", b"SQLite format 3\0" + b"\xff" * 90]
)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_something_else_are_told(tmp_path: Path, kind: str, content: bytes) -> None:
    module, write = KINDS[kind]
    place = write(tmp_path)
    for path in (path for path in place.rglob("*") if path.is_file()):
        path.write_bytes(content)
    assert read_all(module, place) == 0
