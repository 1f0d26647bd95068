"""Folders of MindSpore's profiler: what MindSpore 2.10 wrote on a CPU, and the layouts of older versions on an NPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from jumar.timeline.formats import ascend, mindspore
from jumar.timeline.model.events import Kind, Timeline

FOLDERS = Path(__file__).parents[1] / "fixtures" / "timeline" / "mindspore"
NUM_BATCHES = 4


def read(place: Path) -> Timeline:
    (source,) = mindspore.find(place)
    return mindspore.read(source)


def test_operators_of_the_cpu_are_read() -> None:
    folder = FOLDERS / "cpu_ascend_ms"
    events = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text("utf-8"))
    found = read(folder)
    operators = [event for event in events if event["ph"] == "X" and event["args"].get("type") == "HostCpuOps"]
    rows = np.flatnonzero(found.of(Kind.OPERATOR))
    assert len(rows) == len(operators) > 0
    assert int(found.events.duration_ns[rows].sum()) == sum(round(float(event["dur"]) * 1000) for event in operators)
    assert found.device == "cpu"
    assert "loader" in found.absent
    assert found.lost == ()


def test_the_depth_of_the_loaders_queue_is_a_counter() -> None:
    found = read(FOLDERS / "minddata")
    counters = {counter.name: counter for counter in found.counters}
    assert set(counters) == {"loader queue", "queue behind BatchOp 0", "queue behind GeneratorOp 1"}
    assert len(counters["loader queue"].values) == NUM_BATCHES
    assert found.facts["loader queue length"] == "16"
    rows = np.flatnonzero(found.of(Kind.DATA))
    assert len(rows) == NUM_BATCHES
    assert found.events.duration_ns[rows].max() >= 8_000_000  # four samples of 2 ms
    assert "loader" not in found.absent


def test_the_pipeline_is_placed_at_the_begin_of_other_events(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDERS / "cpu_ascend_ms", tmp_path / "x_ascend_ms")
    for path in (FOLDERS / "minddata").iterdir():
        shutil.copy(path, folder / "ASCEND_PROFILER_OUTPUT")
    found = read(tmp_path)
    assert found.facts["clock of the data pipeline"] == "its own, placed at the begin of the other events"
    depth = next(counter for counter in found.counters if counter.name == "loader queue")
    assert 0 <= depth.times_ns[0] < 10**9


def test_newer_folders_are_mindspores_and_not_torch_npus() -> None:
    assert ascend.find(FOLDERS) == []
    assert [source.path.name for source in mindspore.find(FOLDERS)] == ["cpu_ascend_ms", "minddata"]


STEPS = (
    "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail\n"
    "1,1000,2000,1000,1100,1900,100,800,100\n2,2000,3500,1500,2100,3300,100,1200,200\n-,1500,2750,1250,-,-,100,1000,150\n"
)


def test_steps_of_older_versions_have_their_three_phases(tmp_path: Path) -> None:
    folder = tmp_path / "profiler"
    folder.mkdir()
    (folder / "step_trace_raw_3_detail_time.csv").write_text(STEPS, "utf-8")
    found = read(tmp_path)
    assert [(step.number, step.duration_ns) for step in found.steps] == [(1, 10_000), (2, 15_000)]
    assert (found.rank, found.steps_from) == (3, "vendor")
    spans = {
        name: int(found.events.duration_ns[[found.name_of(row) == name for row in range(len(found.events))]].sum())
        for name in found.names
    }
    assert spans == {"iteration interval": 2000, "forward and backward": 20_000, "step tail": 3000}
    assert found.lost == ()


def test_ranks_in_one_folder_are_sources_of_their_own(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"step_trace_raw_{rank}_detail_time.csv").write_text(STEPS, "utf-8")
    assert [source.rank for source in mindspore.find(tmp_path)] == [0, 1]


def test_queues_of_older_versions_are_read(tmp_path: Path) -> None:
    (tmp_path / "minddata_pipeline_raw_0.csv").write_text(
        "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
        "output_queue_usage_rate,sample_interval,parent_id,children_id\n"
        '0,Batch,4,"[4, 2, 0]",2.0,16,0.1,10,,[1]\n1,Map,4,"[broken",2.0,16,0.1,10,0,\n',
        "utf-8",
    )
    (tmp_path / "minddata_aicpu_0.txt").write_text(
        "node_name start_time end_time queue_size\nGetNext 5 6 3\nGetNext x\n", "utf-8"
    )
    found = read(tmp_path)
    counters = {counter.name: counter for counter in found.counters}
    assert counters["queue behind Batch 0"].values.tolist() == [4, 2, 0]
    assert np.diff(counters["queue behind Batch 0"].times_ns).tolist() == [10_000_000, 10_000_000]
    assert counters["loader queue"].values.tolist() == [3]
    assert [sentence.partition(":")[0] for sentence in found.lost] == ["minddata_pipeline_raw_0.csv"]
