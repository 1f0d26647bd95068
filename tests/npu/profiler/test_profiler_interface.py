"""The interface of `torch_npu.profiler`: schedules, checks of arguments, dynamic profiles, the older calls."""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from jumar.base.errors import UsageError
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu import profiler as P  # noqa: E402 - needs the device; as users import it
from jumar.npu.api.npu import profiling  # noqa: E402 - needs the device
from jumar.npu.core.state import STATE  # noqa: E402 - needs the device
from jumar.npu.formats.ledger import ledger  # noqa: E402 - needs the device
from jumar.npu.profiler import dynamic_profile  # noqa: E402 - needs the device
from jumar.npu.profiler.collect.collector import Collector, Options  # noqa: E402 - needs the device
from jumar.npu.profiler.collect.executions import operator_shape, strided_layout  # noqa: E402 - needs the device
from jumar.npu.profiler.collect.timeline import Clock, play  # noqa: E402 - needs the device
from jumar.soc.estimate import software  # noqa: E402 - needs the device

A = P.ProfilerAction


def folders(path: Path) -> list[Path]:
    return sorted(path.glob("*_ascend_pt"))


def work() -> None:
    x = torch.ones(64, 64, device="npu")
    (x @ x).relu()


def test_a_schedule_waits_warms_up_records_and_repeats() -> None:
    schedule = P.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    expected = [A.NONE, *[A.NONE, A.WARMUP, A.RECORD, A.RECORD_AND_SAVE] * 2, A.NONE, A.NONE]
    assert [schedule(step) for step in range(11)] == expected


def test_the_first_wait_can_be_skipped() -> None:
    schedule = P.schedule(wait=2, warmup=0, active=1, repeat=2, skip_first_wait=1)
    assert [schedule(step) for step in range(5)] == [A.RECORD_AND_SAVE, A.NONE, A.NONE, A.RECORD_AND_SAVE, A.NONE]


def test_a_schedule_replaces_numbers_that_are_not_allowed(caplog: pytest.LogCaptureFixture) -> None:
    schedule: Any = P.schedule(wait=-1, active=0, warmup="1")  # type: ignore[arg-type]
    assert (schedule.wait, schedule.active, schedule.warmup) == (0, 1, 0)
    assert "Invalid parameter active, reset it to 1." in caplog.messages


def test_options_are_checked_and_replaced_as_the_vendor_does(caplog: pytest.LogCaptureFixture) -> None:
    config = P._ExperimentalConfig(
        profiler_level="Level9",
        aic_metrics="ACL_NONSENSE",
        l2_cache="yes",  # type: ignore[arg-type]
        export_type="pdf",
        gc_detect_threshold=-1,
        mstx_domain_include=["a"],
        host_sys=["gpu"],
    )
    assert config.profiler_level == P.ProfilerLevel.Level0
    assert config._aic_metrics == P.AiCMetrics.AiCoreNone
    assert (config._l2_cache, config.export_type, config.gc_detect_threshold) == (False, ["text"], None)
    assert (config._mstx_domain_include, config._host_sys) == ([], [])
    assert len(caplog.messages) == 7


def test_level_none_turns_marks_on() -> None:
    config = P._ExperimentalConfig(profiler_level=P.ProfilerLevel.Level_none, mstx_domain_exclude=["noisy"])
    assert config.tx_enabled
    config = P._ExperimentalConfig(mstx=True, mstx_domain_exclude=["noisy"])
    assert (config.wants_domain("default"), config.wants_domain("noisy")) == (True, False)


def test_wrong_arguments_of_profile_are_replaced(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with P.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],  # type: ignore[list-item]
        schedule=3,  # type: ignore[arg-type]
        record_shapes=1,  # type: ignore[arg-type]
        use_cuda=True,
        on_trace_ready=P.tensorboard_trace_handler(str(tmp_path), worker_name=""),
    ) as prof:
        work()
    assert prof.prof_if.activities == P.supported_activities()
    assert prof.prof_if.record_shapes is False
    assert len([message for message in caplog.messages if "reset it" in message or "set by default" in message]) == 4
    assert len(folders(tmp_path)) == 1


def test_each_repetition_is_a_folder_of_its_own(tmp_path: Path) -> None:
    ready: list[int] = []

    def handler(prof: Any) -> None:
        ready.append(prof.step_num)
        written(prof)

    written = P.tensorboard_trace_handler(str(tmp_path))
    with P.profile(schedule=P.schedule(wait=0, warmup=1, active=1, repeat=2), on_trace_ready=handler) as prof:
        for _ in range(6):
            work()
            prof.step()
            time.sleep(0.002)
    assert ready == [2, 4]
    assert len(folders(tmp_path)) == 2


def test_nothing_is_written_where_no_handler_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    with P.profile():
        work()
    plain = P._KinetoProfile()
    plain.start()
    work()
    plain.stop()
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    with P.profile():
        work()
    assert len(folders(tmp_path / "profiling_data")) == 1


def test_nothing_is_watched_outside_the_recorded_steps() -> None:
    prof = P.profile(schedule=P.schedule(wait=2, warmup=0, active=1, repeat=1))
    before = len(STATE.listeners)
    prof.start()
    assert len(STATE.listeners) == before
    prof.step()
    prof.step()
    assert len(STATE.listeners) == before + 1
    prof.step()
    assert len(STATE.listeners) == before
    prof.stop()


def test_a_profiler_that_fails_does_not_end_the_run(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def broken(_: Any) -> None:
        raise ValueError("no room")

    with P.profile(on_trace_ready=broken):
        work()
    assert "Call stop failed." in caplog.messages


def test_pytorchs_own_profiler_works_beside_npu_code() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True, profile_memory=True) as prof:
        work()
    assert "aten::mm" in {event.key for event in prof.key_averages()}


def test_waiting_for_data_is_time_of_the_step() -> None:
    collector = Collector(Options(host=False))
    collector.start()
    for number in range(2):
        collector.step(str(number))
        work()
        time.sleep(0.03)
    watched = collector.stop()
    played = play(watched, STATE.profile, software(STATE.profile))
    assert all(step.free_us > 25_000 for step in played.timeline.steps())
    assert sum(span.duration_us for span in played.timeline.device) < 1000


def test_the_clock_never_runs_back() -> None:
    clock = Clock([0, 100, 200], [0, 10, 10])
    assert [clock.at(moment) for moment in (0, 50, 100, 150, 200, 250)] == [0, 5, 10, 10, 10, 60]


@pytest.mark.parametrize(
    ("shape", "strides", "layout"),
    [
        ((4, 8), (8, 1), (0, False)),
        ((8, 4), (1, 8), (1, True)),
        ((2, 8, 4), (32, 1, 8), (1, True)),
        ((4, 4), (16, 1), (4, False)),
        ((4, 5), (0, 1), (0, False)),
        ((2, 3, 4, 5), (120, 20, 5, 1), (60, False)),
        ((2, 4, 3), (12, 1, 4), (1, True)),
        ((4, 2, 3), (3, 12, 1), (3, False)),
    ],
)
def test_strides_are_read_as_runs_and_transposes(
    shape: tuple[int, ...], strides: tuple[int, ...], layout: tuple[int, bool]
) -> None:
    assert strided_layout(shape, strides) == layout


def test_what_the_ledger_tells_becomes_a_shape() -> None:
    found = []
    data, weight = torch.ones(2, 4, 8, 8, device="npu"), torch.ones(4, 1, 3, 3, device="npu")
    with ledger.follow(lambda execution: found.append(operator_shape(execution))):
        torch.nn.functional.conv2d(data, weight, groups=4)
    shape = next(shape for shape in found if "convolution" in shape.name)
    assert [tensor.shape for tensor in shape.inputs] == [(2, 4, 8, 8), (4, 1, 3, 3)]
    assert (shape.attribute("groups"), shape.attribute("transposed")) == (4, False)
    assert [tensor.shape for tensor in shape.outputs] == [(2, 4, 6, 6)]


def test_a_dynamic_profile_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_profile, "_STATE", dynamic_profile._State())
    dynamic_profile.init(str(tmp_path))
    file = tmp_path / dynamic_profile.FILE
    config = json.loads(file.read_text("utf-8"))
    assert config["start_step"] == 0
    dynamic_profile.step()
    config.update(start_step=3, active=2, prof_dir=str(tmp_path / "out"), analyse=True, metadata={"tp": 2})
    file.write_text(json.dumps(config), encoding="utf-8")
    for _ in range(6):
        dynamic_profile.step()
        work()
    (found,) = folders(tmp_path / "out")
    rows = (found / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").read_text("utf-8").splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["3", "4"]
    assert json.loads((found / "profiler_metadata.json").read_text("utf-8"))["tp"] == 2


def test_a_dynamic_profile_starts_at_once_from_a_given_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_profile, "_STATE", dynamic_profile._State())
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"prof_dir": str(tmp_path), "analyse": False}), encoding="utf-8")
    dynamic_profile.start(str(file))
    work()
    dynamic_profile.step()
    (found,) = folders(tmp_path)
    assert not (found / "ASCEND_PROFILER_OUTPUT").exists()


def test_the_older_calls_write_the_steps_that_were_marked(tmp_path: Path) -> None:
    profiling.prof_init(str(tmp_path))
    profiling.prof_start(profiling.profileConfig(TORCH_CALL_STACK=False))
    for _ in range(2):
        profiling.iteration_start()
        work()
        profiling.iteration_end()
    profiling.prof_stop()
    profiling.prof_finalize()
    (found,) = folders(tmp_path)
    rows = (found / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").read_text("utf-8").splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["0", "1"]


def test_the_older_calls_want_their_order(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="call prof_init"):
        profiling.prof_start()
    with pytest.raises(UsageError, match="call prof_start first"):
        profiling.prof_stop()
    with profiling.profile(str(tmp_path)):
        with pytest.raises(UsageError, match="called already"):
            profiling.prof_init(str(tmp_path))
        work()
    assert len(folders(tmp_path)) == 1


def test_autograds_profiler_takes_use_npu(tmp_path: Path) -> None:
    with profiling.AutogradProfile(use_npu=True, record_shapes=True) as prof:
        work()
    text = str(prof)
    assert all(name in text for name in ("Self NPU %", "NPU time avg", "aten::mm", "Input Shapes", "estimates"))
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "torch_to_npu" in (tmp_path / "trace.json").read_text("utf-8")
    with profiling.AutogradProfile(use_npu=True, use_npu_simple=True) as prof:
        work()
    assert "aten::matmul" not in str(prof)


def test_autograds_profiler_counts_the_memory_of_each_operator() -> None:
    data = torch.ones(256, 256, device="npu")
    with torch.autograd.profiler.profile(use_device="npu", profile_memory=True) as prof:
        kept = data @ data
        data.relu()  # freed at once
    header, *rows = [line for line in str(prof).splitlines() if line.strip() and not line.startswith("-")]
    columns = re.split(r"\s{2,}", header.strip())
    assert columns[-5:] == ["CPU Mem", "Self CPU Mem", "NPU Mem", "Self NPU Mem", "# of Calls"]
    found = {cells[0]: cells for row in rows if len(cells := re.split(r"\s{2,}", row.strip())) == len(columns)}
    assert found["aten::mm"][-2] == "256.00 Kb"
    assert found["aten::matmul"][-3:-1] == ["256.00 Kb", "0 b"]
    assert kept.numel()


def test_autograds_profiler_is_pytorchs_own_without_use_npu() -> None:
    with profiling.AutogradProfile() as prof:
        work()
    assert "Self NPU" not in str(prof)
    assert "aten::mm" in str(prof)


def test_a_garbage_collection_is_seen(tmp_path: Path) -> None:
    import gc

    config = P._ExperimentalConfig(gc_detect_threshold=0)
    with P.profile(experimental_config=config, on_trace_ready=P.tensorboard_trace_handler(str(tmp_path))):
        work()
        gc.collect()
    (found,) = folders(tmp_path)
    events = json.loads((found / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text("utf-8"))
    assert [event["name"] for event in events if event.get("cat") == "GC"]


def test_messages_are_log_lines() -> None:
    assert logging.getLogger("torch_npu.profiler").level == logging.NOTSET
