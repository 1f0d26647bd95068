"""Pauses, compilations and the host."""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
import types
from pathlib import Path

import pytest
import torch

from jumar.capture.profile.log import EventLog
from jumar.capture.profile.watch.compiles import CompileWatch
from jumar.capture.profile.watch.host import HostSampler, clock_mhz, governors, rss_bytes
from jumar.capture.profile.watch.pauses import PauseWatch


def test_a_long_collection_is_an_event_and_a_short_one_is_counted() -> None:
    log = EventLog()
    watch = PauseWatch(log)
    watch.start()
    junk: list = [[] for _ in range(30_000)]
    for item in junk:
        item.append(item)
    del junk, item
    begin = time.time_ns()
    gc.collect()
    gc.collect(0)
    watch.stop()
    gc.collect()
    long = [event for event in log._events if event.name == "gc generation 2" and event.start_ns >= begin]
    assert len(long) == 1
    assert long[0].arguments["collected"] >= 30_000
    assert watch.collections[2][0] >= 1
    assert watch.collections[0][0] >= 1
    assert watch.collections[2][1] >= long[0].duration_ns / 1e6


def test_a_wait_for_the_device_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    module = types.ModuleType("torch.npu")
    module.synchronize = lambda: calls.append("synchronize")  # type: ignore[attr-defined]
    module.empty_cache = lambda: calls.append("empty_cache")  # type: ignore[attr-defined]
    module.Event = type("Event", (), {"synchronize": lambda self: calls.append("event")})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.npu", module)
    log = EventLog()
    watch = PauseWatch(log)
    watch.start()
    line = sys._getframe().f_lineno + 1
    module.synchronize()
    module.empty_cache()
    module.Event().synchronize()
    watch.stop()
    module.synchronize()
    found = [(event.name, event.arguments["source"]) for event in log._events if not event.name.startswith("gc")]
    shown = f"{Path(__file__).relative_to(Path.cwd()) if Path(__file__).is_relative_to(Path.cwd()) else __file__}"
    assert found == [
        ("torch.npu.synchronize", f"{shown}:{line}"),
        ("torch.npu.empty_cache", f"{shown}:{line + 1}"),
        ("torch.npu.Event.synchronize", f"{shown}:{line + 2}"),
    ]
    assert calls == ["synchronize", "empty_cache", "event", "synchronize"]


def test_a_call_that_fails_is_noted_and_raises_its_own_error() -> None:
    log = EventLog()
    watch = PauseWatch(log)
    watch.start()
    try:
        if torch.cuda.is_available():
            pytest.skip("torch.cuda.synchronize works here")
        with pytest.raises((AssertionError, RuntimeError)):
            torch.cuda.synchronize()
    finally:
        watch.stop()
    assert [event.name for event in log._events if not event.name.startswith("gc")] == ["torch.cuda.synchronize"]


@pytest.mark.slow
def test_a_recompilation_names_the_shape_that_changed() -> None:
    torch._dynamo.reset()

    @torch.compile(backend="eager", dynamic=False)
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double(torch.ones(2))
    log = EventLog()
    watch = CompileWatch(log)
    assert not watch.poll()
    begin = time.time_ns()
    double(torch.ones(3))
    end = time.time_ns()
    assert watch.poll()
    assert not watch.poll()
    (event,) = log._events
    assert event.name.startswith("recompile double ")
    assert begin - 1e6 <= event.start_ns <= event.start_ns + event.duration_ns <= end + 1e6
    assert "expected 2, actual 3" in event.arguments["reason"]
    ((where, reasons),) = watch.reasons.items()
    assert where.startswith("double ")
    assert "size mismatch at index 0" in reasons[0]
    assert watch.num_compiles == 1
    torch._dynamo.reset()


def test_the_host_is_sampled_at_its_interval(tmp_path: Path) -> None:
    log = EventLog()
    sampler = HostSampler(tmp_path / "host.jsonl", log)
    sampler.start()
    deadline = time.monotonic() + 5
    while (tmp_path / "host.jsonl").read_text().count("\n") < 4 and time.monotonic() < deadline:
        sum(range(10_000))
    sampler.stop()
    constant, *samples = map(json.loads, (tmp_path / "host.jsonl").read_text().splitlines())
    assert constant["interval_s"] == 0.1
    assert len(samples) >= 3
    assert all(later["t"] - sooner["t"] >= 0.09e9 for sooner, later in itertools.pairwise(samples))
    assert max(sample["cpu_percent"] for sample in samples) > 0
    assert {"process cpu %"} <= {count.name for count in log._counts}
    if rss_bytes() is not None:
        assert all(sample["rss_bytes"] > 10_000_000 for sample in samples)


def test_clocks_and_governors_are_read_where_the_system_tells(tmp_path: Path) -> None:
    for core, (mhz, governor) in enumerate([(2_000_000, "powersave"), (3_000_000, "powersave")]):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{mhz}\n")
        (folder / "scaling_governor").write_text(f"{governor}\n")
    assert (clock_mhz(tmp_path), governors(tmp_path)) == (2500, ["powersave"])
    assert (clock_mhz(tmp_path / "none"), governors(tmp_path / "none"), rss_bytes(tmp_path)) == (None, [], None)


def test_a_full_disk_ends_the_samples_and_is_told(tmp_path: Path) -> None:
    sampler = HostSampler(tmp_path / "host.jsonl", EventLog())
    sampler.start()
    assert sampler._file is not None
    real, sampler._file = sampler._file, _Full()  # type: ignore[assignment]
    deadline = time.monotonic() + 5
    while not sampler.failure and time.monotonic() < deadline:
        time.sleep(0.01)
    sampler.stop()
    real.close()
    assert "No space left on device" in sampler.failure


class _Full:
    def write(self, text: str) -> None:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        pass
