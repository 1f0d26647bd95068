"""Tables and databases of torch_npu's profiler, in the layouts of older and newer versions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from stored_profile import write_database

from jumar.base.errors import InputError
from jumar.timeline.formats import ascend
from jumar.timeline.model.events import Kind, Timeline
from jumar.timeline.reading import find_sources
from jumar.timeline.vendor import words


def read(place: Path) -> Timeline:
    (source,) = ascend.find(place)
    return ascend.read(source)


OLDER = (
    "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,Input Formats\n"
    'aclnnCast_Cast,Cast,AI_VECTOR_CORE,1704161511420306.491\t,3.5\t,0,8,"""8,4""",ND\n'
    'trans_TransData_1,TransData,AI Core,1704161511420311.001\t,2,0,8,"""8,4""",NCHW\n'
    'Index_9,Index,AI_CPU,1704161511420320.001\t,20,0,1,"""8;2""",ND\n'
    "hcom_allReduce__428_0_1,hcom_allReduce_,HCCL,1704161511420340.001\t,5,0,N/A,N/A,N/A\n"
)


def test_older_tables_tell_casts_conversions_ai_cpu_and_collectives(tmp_path: Path) -> None:
    path = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    path.mkdir(parents=True)
    (path / "kernel_details.csv").write_text(OLDER, "utf-8")
    (path.parent / "profiler_info_3.json").write_text('{"rank_id": 3, "world_size": 8}', "utf-8")
    found = read(tmp_path)
    details = [found.detail_of(row) for row in range(4)]
    types = [dict(detail.more).get("Op Type") for detail in details if detail]
    assert types == ["Cast", "TransData", "Index", "hcom_allReduce_"]
    assert [words.is_ai_cpu(detail) for detail in details] == [False, False, True, False]
    assert found.events.kind.tolist() == [Kind.KERNEL, Kind.KERNEL, Kind.KERNEL, Kind.COLLECTIVE]
    assert found.events.start_ns.tolist() == [0, 4510, 13510, 33510]
    assert (found.rank, found.num_ranks, found.origin_ns) == (3, 8, 1704161511420306491)
    assert details[0] is not None
    assert dict(details[0].more)["Block Dim"] == "8"


COMMUNICATION = {
    "step1": {
        "p2p": {},
        "collective": {
            "hcom_allReduce__428_0_1@group": {
                "Communication Time Info": {
                    "Start Timestamp(us)": 1704161511420340.001, "Elapse Time(ms)": 0.005, "Wait Time(ms)": 0.002,
                },
                "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 4.0, "Bandwidth(GB/s)": 18.0}},
            },
            "hcom_send__1_0@group": {
                "Communication Time Info": {"Start Timestamp(us)": 1704161511420350.0, "Elapse Time(ms)": 0.001},
            },
            "Total Op Info": {"Communication Time Info": {"Elapse Time(ms)": 0.006}},
        },
    }
}  # fmt: skip


def test_collectives_know_their_waiting_and_their_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "ASCEND_PROFILER_OUTPUT"
    path.mkdir()
    (path / "kernel_details.csv").write_text(OLDER, "utf-8")
    (path / "communication.json").write_text(json.dumps(COMMUNICATION), "utf-8")
    found = read(path)
    detail = found.detail_of(3)
    assert detail is not None
    assert dict(detail.more)["HCCS Bandwidth(GB/s)"] == "18.0"
    assert dict(detail.more)["Wait Time(ms)"] == "0.002"
    assert list(found.lost) == [
        "communication.json has 1 collectives of 1.000 us that no event of kernel_details.csv is."
    ]


def test_the_analysis_database_stands_in_for_the_file_of_collectives(tmp_path: Path) -> None:
    (tmp_path / "kernel_details.csv").write_text(OLDER, "utf-8")
    connection = sqlite3.connect(tmp_path / "analysis.db")
    connection.execute(
        "CREATE TABLE CommAnalyzerTime "
        "(hccl_op_name, group_name, start_timestamp, elapse_time, transit_time, wait_time)"
    )
    connection.execute(
        "INSERT INTO CommAnalyzerTime VALUES "
        "('hcom_allReduce__428_0_1@g', 'g', 1704161511420340.0, 0.005, 0.003, 0.002)"
    )
    connection.execute("CREATE TABLE CommAnalyzerBandwidth (hccl_op_name, transport_type, transit_size, bandwidth)")
    connection.execute("INSERT INTO CommAnalyzerBandwidth VALUES ('hcom_allReduce__428_0_1@g', 'SDMA', 4.0, 18.5)")
    connection.commit()
    connection.close()
    detail = read(tmp_path).detail_of(3)
    assert detail is not None
    assert dict(detail.more).items() >= {("Wait Time(ms)", "0.002"), ("SDMA Bandwidth(GB/s)", "18.5")}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_5.db"
    path.parent.mkdir(parents=True)
    write_database(path)
    return path


def test_a_database_is_read_with_its_links_and_details(stored: Path) -> None:
    found = read(stored.parents[1])
    assert [found.name_of(row) for row in range(len(found.events))] == [
        "aten::mm", "Node@aclnnMm", "MatMulV3", "Index", "hcom_allReduce__1", "group",
    ]  # fmt: skip
    assert found.events.kind.tolist() == [
        Kind.OPERATOR,
        Kind.RUNTIME,
        Kind.KERNEL,
        Kind.KERNEL,
        Kind.COLLECTIVE,
        Kind.RANGE,
    ]
    links = found.events.link.tolist()
    assert links[0] != 0
    assert links[:4] == [links[0]] * 4
    kernel, index, operator = found.detail_of(2), found.detail_of(3), found.detail_of(0)
    assert kernel is not None
    assert operator is not None
    assert dict(kernel.more)["Input Formats"] == "ND;FRACTAL_NZ"
    assert dict(kernel.more)["Block Dim"] == "24"
    assert words.is_ai_cpu(index)
    assert (operator.stack, operator.shapes) == ("train.py:41", "[[8, 4], [4, 2]]")
    assert [(step.number, step.start_ns, step.end_ns) for step in found.steps] == [(4, -100, 8100)]
    assert (found.rank, found.device_name, found.steps_from) == (5, "Ascend910B2", "vendor")
    assert [(counter.name, counter.values.tolist()) for counter in found.counters] == [
        ("memory npu:2", [512.0]), ("reserved npu:2", [1024.0]),
    ]  # fmt: skip
    assert list(found.lost) == [
        "ascend_pytorch_profiler_5.db, table TASK: 1 of 3 entries were passed over: their begin or end is no number."
    ]


def test_a_database_is_not_changed_by_reading(stored: Path) -> None:
    before = stored.read_bytes()
    read(stored.parents[1])
    assert stored.read_bytes() == before
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


def test_a_database_that_tells_otherwise_than_the_trace_is_named(stored: Path) -> None:
    trace = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Ascend Hardware"}},
        {
            "ph": "X",
            "name": "MatMulV3",
            "pid": 1,
            "tid": 6,
            "ts": "3.000",
            "dur": 9.0,
            "args": {"Task Type": "AI_CORE"},
        },
    ]
    (stored.parent / "trace_view.json").write_text(json.dumps(trace), "utf-8")
    found = read(stored.parents[1])
    assert len(found.events) == 1
    assert any("trace_view.json and ascend_pytorch_profiler_5.db disagree on kernel" in text for text in found.lost)


LEVEL_0 = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Python"}},
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "Ascend Hardware"}},
    {"ph": "X", "name": "my range", "pid": 1, "tid": 5, "ts": "1.000", "dur": 9, "cat": "cpu_op", "args": {}},
    {"ph": "X", "name": "Conv2D", "pid": 1, "tid": 5, "ts": "1.000", "dur": 2, "cat": "cpu_op", "args": {}},
    {"ph": "X", "name": "aclnnMm", "pid": 1, "tid": 5, "ts": "4.000", "dur": 2, "cat": "cpu_op", "args": {}},
    {"ph": "X", "name": "Conv2D_1", "pid": 2, "tid": 3, "ts": "20.000", "dur": 2.5, "args": {"Task Type": "Other"}},
    {"ph": "X", "name": "MEMCPY_ASYNC", "pid": 2, "tid": 3, "ts": "23.000", "dur": 1, "args": {"Task Type": "Other"}},
    {"ph": "X", "name": "EVENT_WAIT", "pid": 2, "tid": 3, "ts": "25.000", "dur": 1, "args": {"Task Type": "Other"}},
    {"ph": "s", "cat": "async_npu", "id": 20000, "pid": 1, "tid": 5, "ts": "1.000"},
    {"ph": "f", "cat": "async_npu", "id": 20000, "pid": 2, "tid": 3, "ts": "20.000"},
    {"ph": "s", "cat": "HostToDevice", "id": "7", "pid": 9, "tid": 5, "ts": "2.000"},
    {"ph": "f", "cat": "HostToDevice", "id": "7", "pid": 2, "tid": 3, "ts": "20.000"},
]
"""As torch_npu writes at its lowest level: launches are left out, and task types are not told."""


def test_a_trace_of_the_lowest_level_has_operators_kernels_copies_and_links(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(LEVEL_0), "utf-8")
    found = read(tmp_path)
    kinds = {found.name_of(row): Kind(found.events.kind[row]) for row in range(len(found.events))}
    assert kinds == {
        "my range": Kind.RANGE, "Conv2D": Kind.OPERATOR, "aclnnMm": Kind.OPERATOR, "Conv2D_1": Kind.KERNEL,
        "MEMCPY_ASYNC": Kind.COPY, "EVENT_WAIT": Kind.OTHER,
    }  # fmt: skip
    linked = {found.name_of(row) for row in range(len(found.events)) if found.events.link[row]}
    assert linked == {"Conv2D", "Conv2D_1"}
    assert found.lost == ()
    path.write_text(json.dumps([event for event in LEVEL_0 if event.get("ts") != "1.000"]), "utf-8")
    assert list(read(tmp_path).lost) == ["trace_view.json: 2 arrows lead to no kernel, or from no call."]


def test_a_trace_under_any_name_is_the_npus_and_not_kinetos(tmp_path: Path) -> None:
    trace = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Ascend Hardware"}},
        {"ph": "X", "name": "aten::mm", "pid": 2, "tid": 6, "ts": "1.000", "dur": 9.0, "cat": "cpu_op", "args": {}},
        {
            "ph": "X",
            "name": "MatMulV3",
            "pid": 1,
            "tid": 6,
            "ts": "3.000",
            "dur": 9.0,
            "args": {"Task Type": "AI_CORE"},
        },
    ]
    (tmp_path / "mine.json").write_text(json.dumps(trace), "utf-8")
    for place in (tmp_path, tmp_path / "mine.json"):
        (source,) = find_sources(place)
        assert source.format == "ascend"
        assert ascend.read(source).events.kind.tolist() == [Kind.OPERATOR, Kind.KERNEL]


def test_raw_data_are_told_from_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x_ascend_pt"
    (path / "FRAMEWORK").mkdir(parents=True)
    with pytest.raises(InputError, match="analyse"):
        read(path)
    assert ascend.find(path / "FRAMEWORK") == []


def test_a_folder_of_ranks_has_one_source_each(tmp_path: Path) -> None:
    for rank in (0, 1, 7):
        output = tmp_path / f"host_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / "kernel_details.csv").write_text(OLDER, "utf-8")
        (output.parent / f"profiler_info_{rank}.json").write_text("{}", "utf-8")
    (tmp_path / "other_ascend_ms" / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    assert [source.rank for source in ascend.find(tmp_path)] == [0, 1, 7]
