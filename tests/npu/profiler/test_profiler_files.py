"""`torch_npu.profiler` writes the vendor's files: layout, columns, and numbers that agree with each other."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar import emulate
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu import profiler as torch_npu_profiler  # noqa: E402 - needs the device
from jumar.npu.api.npu import mstx as marks  # noqa: E402 - needs the device
from jumar.npu.core import events  # noqa: E402 - needs the device
from jumar.npu.profiler.collect import collector  # noqa: E402 - needs the device
from jumar.npu.profiler.profiler import analyse  # noqa: E402 - needs the device

P = torch_npu_profiler
TELLS_FRAMES = hasattr(torch._C._autograd._KinetoEvent, "is_python_function")
KERNEL_BASE = "Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num"
STEP_COLUMNS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)


class Trained:
    """A small network and its training step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 4))
        self.model.npu()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.images = torch.randn(8, 3, 8, 8)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.model(self.images.npu()).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recorded steps at Level1 with everything on."""
    path = tmp_path_factory.mktemp("profile")
    trained = Trained()
    config = P._ExperimentalConfig(
        profiler_level=P.ProfilerLevel.Level1, aic_metrics=P.AiCMetrics.PipeUtilization, mstx=True
    )
    with P.profile(
        schedule=P.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=P.tensorboard_trace_handler(str(path), worker_name="worker"),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        experimental_config=config,
    ) as prof:
        prof.add_metadata_json("parallel", '{"dp": 1}')
        for _ in range(5):
            with torch.autograd.profiler.record_function("my range"):
                marks.mark("my mark")
                trained.step()
            prof.step()
    (found,) = path.glob("*_ascend_pt")
    return found


@pytest.fixture(scope="module")
def trace(folder: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads((output(folder) / "trace_view.json").read_text("utf-8"))
    return events


def output(folder: Path) -> Path:
    return folder / "ASCEND_PROFILER_OUTPUT"


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (output(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def header(folder: Path, name: str) -> str:
    return (output(folder) / name).read_text("utf-8").splitlines()[0]


def spans(trace: list[dict[str, Any]], process: str) -> Iterator[dict[str, Any]]:
    pids = {event["pid"] for event in trace if event["name"] == "process_name" and event["args"]["name"] == process}
    return (event for event in trace if event["ph"] == "X" and event["pid"] in pids)


def test_the_folder_is_named_and_filled_as_the_vendors(folder: Path) -> None:
    assert folder.name.startswith("worker_")
    assert {path.name for path in folder.iterdir()} == {
        "ASCEND_PROFILER_OUTPUT",
        "FRAMEWORK",
        "profiler_info.json",
        "profiler_metadata.json",
    }
    assert {path.name for path in output(folder).iterdir()} == {
        "trace_view.json", "kernel_details.csv", "operator_details.csv", "step_trace_time.csv", "op_statistic.csv",
        "api_statistic.csv", "operator_memory.csv", "memory_record.csv",
    }  # fmt: skip


def test_the_tables_have_the_vendors_columns(folder: Path) -> None:
    assert header(folder, "step_trace_time.csv") == STEP_COLUMNS
    assert header(folder, "kernel_details.csv").startswith(
        "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
        "Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
        "Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_time(us)"
    )
    assert header(folder, "operator_details.csv") == (
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
    )
    assert header(folder, "op_statistic.csv") == (
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
    )
    assert (
        header(folder, "api_statistic.csv")
        == "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"
    )


def test_both_steps_ran_the_same_kernels(folder: Path) -> None:
    rows = table(folder, "kernel_details.csv")
    by_step = {step: [row["Type"] for row in rows if row["Step Id"] == step] for step in ("2", "3")}
    assert len(rows) == 2 * len(by_step["2"])
    assert by_step["2"] == by_step["3"]
    assert {"Conv2DV2", "BatchNormV3", "Relu", "MatMulV3", "Conv2DBackpropFilter"} <= set(by_step["2"])


def test_a_kernel_has_its_shapes_and_the_ratio_of_its_units(folder: Path) -> None:
    row = next(row for row in table(folder, "kernel_details.csv") if row["Type"] == "Conv2DV2")
    assert row["Input Shapes"] == "8,3,8,8;16,3,3,3;16"
    assert row["Input Data Types"] == "FLOAT;FLOAT;FLOAT"
    assert (row["Accelerator Core"], row["HF32 Eligible"]) == ("AI_CORE", "YES")
    assert 0 < float(row["aic_mac_ratio"]) <= 1


def test_the_tables_agree_on_the_time_of_the_device(folder: Path) -> None:
    kernels = sum(float(row["Duration(us)"]) for row in table(folder, "kernel_details.csv"))
    statistic = sum(float(row["Total Time(us)"]) for row in table(folder, "op_statistic.csv"))
    computing = sum(float(row["Computing"]) for row in table(folder, "step_trace_time.csv"))
    assert statistic == pytest.approx(kernels, abs=0.1)
    assert computing == pytest.approx(kernels, abs=0.1)
    details = sum(float(row["Device Self Duration With AICore(us)"]) for row in table(folder, "operator_details.csv"))
    assert details == pytest.approx(kernels, rel=0.01)


def test_totals_hold_what_is_inside(folder: Path) -> None:
    rows = {row["Name"]: row for row in table(folder, "operator_details.csv")}
    outer, inner = rows["aten::conv2d"], rows["aten::convolution"]
    assert float(outer["Device Self Duration(us)"]) == 0
    assert float(outer["Device Total Duration(us)"]) == float(inner["Device Self Duration(us)"]) > 0
    assert float(outer["Host Total Duration(us)"]) >= float(inner["Host Total Duration(us)"]) > 0
    assert inner["Input Shapes"].startswith("8,3,8,8;16,3,3,3;16")
    assert "test_profiler_files.py" in inner["Call Stack"] or not TELLS_FRAMES
    assert "my range" in rows


def test_the_trace_has_host_and_device_and_joins_them(trace: list[dict[str, Any]]) -> None:
    kernels, calls = list(spans(trace, "Ascend Hardware")), list(spans(trace, "Python"))
    assert {"aten::convolution", "ProfilerStep#2", "ProfilerStep#3", "my range"} <= {event["name"] for event in calls}
    flows = [event for event in trace if event.get("cat") == "async_npu"]
    starts = {event["id"]: event for event in flows if event["ph"] == "s"}
    ends = {event["id"]: event for event in flows if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(ends) == len(kernels)
    begins = {(event["pid"], event["tid"], event["ts"]) for event in kernels}
    assert {(event["pid"], event["tid"], event["ts"]) for event in ends.values()} == begins
    assert all(float(starts[number]["ts"]) <= float(ends[number]["ts"]) for number in starts)


def test_kernels_of_one_stream_do_not_overlap(trace: list[dict[str, Any]]) -> None:
    times = sorted((float(event["ts"]), event["dur"]) for event in spans(trace, "Ascend Hardware"))
    base = times[0][0]
    ends = [start - base + duration for start, duration in times]
    assert all(start - base >= end - 0.5 for (start, _), end in zip(times[1:], ends, strict=False))


def test_the_trace_keeps_the_vendors_shape(trace: list[dict[str, Any]]) -> None:
    assert {event["ph"] for event in trace} <= {"X", "M", "s", "f"}
    assert all(isinstance(event["ts"], str) for event in trace if event["ph"] != "M")
    labels = {event["args"]["labels"] for event in trace if event["name"] == "process_labels"}
    assert labels == {"CPU", "NPU 0"}
    assert any(event["name"].startswith("AscendCL@aclnn") for event in spans(trace, "CANN"))
    overlap = list(spans(trace, "Overlap Analysis"))
    assert {"Computing", "Free"} <= {event["name"] for event in overlap}
    assert [event["name"] for event in spans(trace, "MSTX")].count("my mark") == 2


def test_every_file_that_can_says_that_times_are_estimates(folder: Path, trace: list[dict[str, Any]]) -> None:
    info = json.loads((folder / "profiler_info.json").read_text("utf-8"))
    metadata = json.loads((folder / "profiler_metadata.json").read_text("utf-8"))
    (mark,) = [event for event in trace if event["name"] == "jumar_estimate"]
    assert info["jumar_estimate"] == metadata["jumar_estimate"] == mark["args"]
    assert mark["args"]["is_estimate"] is True
    assert all(event["args"]["estimated"] for event in spans(trace, "Ascend Hardware"))
    assert metadata["parallel"] == {"dp": 1}
    assert info["config"]["common_config"]["activities"] == ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]


def test_memory_rows_have_a_life(folder: Path) -> None:
    rows = table(folder, "operator_memory.csv")
    released = [row for row in rows if row["Release Time(us)"]]
    assert {"aten::convolution", "aten::_to_copy"} <= {row["Name"] for row in rows}
    assert all(float(row["Release Time(us)"]) >= float(row["Allocation Time(us)"]) for row in released)
    image = next(row for row in rows if row["Name"] == "aten::_to_copy")
    assert float(image["Size(KB)"]) == 8 * 3 * 8 * 8 * 4 / 1024
    assert {row["Component"] for row in table(folder, "memory_record.csv")} == {"PTA", "PTA+GE"}


def test_level0_has_fewer_columns_and_files(tmp_path: Path) -> None:
    trained = Trained()
    with P.profile(on_trace_ready=P.tensorboard_trace_handler(str(tmp_path))):
        trained.step()
    (found,) = tmp_path.glob("*_ascend_pt")
    assert header(found, "kernel_details.csv") == KERNEL_BASE
    assert {path.name for path in output(found).iterdir()} == {
        "trace_view.json", "kernel_details.csv", "operator_details.csv", "step_trace_time.csv",
    }  # fmt: skip
    (row,) = table(found, "step_trace_time.csv")
    assert row["Step"] == ""


def test_a_later_analysis_writes_the_same_files(tmp_path: Path) -> None:
    trained = Trained()
    with P.profile(on_trace_ready=P.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)) as prof:
        trained.step()
    (found,) = tmp_path.glob("*_ascend_pt")
    assert not output(found).exists()
    analyse(str(tmp_path))
    later = (output(found) / "kernel_details.csv").read_bytes()
    prof.prof_if.analyse()
    assert later == (output(found) / "kernel_details.csv").read_bytes()


def test_activities_choose_the_tracks(tmp_path: Path) -> None:
    trained = Trained()
    handler = P.tensorboard_trace_handler(str(tmp_path))
    with P.profile(activities=[P.ProfilerActivity.NPU], on_trace_ready=handler):
        trained.step()
    (found,) = tmp_path.glob("*_ascend_pt")
    events = json.loads((output(found) / "trace_view.json").read_text("utf-8"))
    assert list(spans(events, "Ascend Hardware"))
    assert not list(spans(events, "Python"))
    assert not (output(found) / "operator_details.csv").exists()


@pytest.mark.skipif(not TELLS_FRAMES, reason="PyTorch's profiler tells Python's frames from torch 2.10 on")
def test_stacks_and_a_trace_can_be_exported_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained = Trained()
    with P.profile(with_stack=True) as prof:
        trained.step()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_npu_time_total")
    assert any(
        event["name"] == "aten::convolution" for event in json.loads((tmp_path / "trace.json").read_text("utf-8"))
    )
    assert "test_profiler_files.py" in (tmp_path / "stacks.txt").read_text("utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"trace.json", "stacks.txt"}


def test_collectives_have_a_stream_and_a_file_of_their_own(tmp_path: Path) -> None:
    config = P._ExperimentalConfig(profiler_level=P.ProfilerLevel.Level1)
    tensor = torch.ones(2**20, device="npu")
    with P.profile(experimental_config=config, on_trace_ready=P.tensorboard_trace_handler(str(tmp_path))):
        tensor.mul(2)
        events.tell("hccl::allreduce", ([tensor],), {"num_ranks": 8}, [tensor], time.perf_counter_ns())
    (found,) = tmp_path.glob("*_ascend_pt")
    (row,) = table(found, "step_trace_time.csv")
    assert float(row["Communication"]) > float(row["Computing"]) > 0
    collective = json.loads((output(found) / "communication.json").read_text("utf-8"))["step"]["collective"]
    name = next(name for name in collective if name.startswith("hcom_allReduce_"))
    assert collective[name]["Communication Bandwidth Info"]["HCCS"]["Transit Size(MB)"] == 4
    trace = json.loads((output(found) / "trace_view.json").read_text("utf-8"))
    assert len(list(spans(trace, "Communication"))) == 1
    assert "Communication(Not Overlapped)" in {event["name"] for event in spans(trace, "Overlap Analysis")}


def test_a_first_generation_chip_shows_conversions_casts_and_its_own_counters(tmp_path: Path) -> None:
    config = P._ExperimentalConfig(profiler_level=P.ProfilerLevel.Level1, aic_metrics=P.AiCMetrics.PipeUtilization)
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        trained = Trained()
        with P.profile(experimental_config=config, on_trace_ready=P.tensorboard_trace_handler(str(tmp_path))):
            trained.step()
    (found,) = tmp_path.glob("*_ascend_pt")
    rows = table(found, "kernel_details.csv")
    assert {"TransData", "Cast", "Conv2D", "BNTrainingReduce"} <= {row["Type"] for row in rows}
    assert {"NC1HWC0"} <= {part for row in rows for part in row["Input Formats"].split(";")}
    assert header(found, "kernel_details.csv").endswith("icache_miss_rate,memory_bound")
    assert {row["OP State"] for row in rows} == {"static"}
    info = json.loads((found / "profiler_info.json").read_text("utf-8"))
    assert (info["jumar_estimate"]["soc"], info["jumar_estimate"]["assumed"]) == ("Ascend910A", [])


class Interrupted:
    """The module `time`, for a process that loses the processor before most readings of the wall clock."""

    def __init__(self) -> None:
        self._num_readings = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time_ns(self) -> int:
        self._num_readings += 1
        if self._num_readings < collector.CLOCK_READINGS:
            time.sleep(0.002)
        return time.time_ns()


def test_host_and_device_are_joined_however_busy_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained()
    monkeypatch.setattr(collector, "time", Interrupted())
    with P.profile(on_trace_ready=P.tensorboard_trace_handler(str(tmp_path))):
        trained.step()
    (found,) = tmp_path.glob("*_ascend_pt")
    events = json.loads((output(found) / "trace_view.json").read_text("utf-8"))
    ends = [event for event in events if event.get("cat") == "async_npu" and event["ph"] == "f"]
    assert len(ends) == len(list(spans(events, "Ascend Hardware"))) > 0
