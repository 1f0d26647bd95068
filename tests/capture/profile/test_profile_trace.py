"""Jumar's events in Kineto's file, and what the profiler cost."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from jumar.capture.profile import trace
from jumar.capture.profile.log import LANE_OFFSET, Event, EventLog
from jumar.capture.profile.overhead import StepTime, overhead
from jumar.capture.profile.trace import write_trace

BASE_NS = 1_700_000_000_000_000_000
KINETO = """{
  "schemaVersion": 1,
  "baseTimeNanoseconds": %d,
  "traceEvents": [
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 1, "tid": 1, "ts": 5.5, "dur": 3
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "a\x01b", "pid": 1, "tid": 1, "ts": 6, "dur": 1
  }
  ],"traceName": "t" }"""


def _log() -> EventLog:
    log = EventLog()
    log.add("gc generation 2", BASE_NS + 1_234_567, 89_001, collected=3)
    log.take(Event("loader fetch", BASE_NS + 10, 20, 4711, 4712, {"worker": 0}))
    log.name_lane(4711, 4712, "data loader worker 0")
    log.count("loader queue", "batches", BASE_NS + 2000, 3)
    return log


def _read(path: Path) -> dict:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize("chunk", [trace.CHUNK, 120])
def test_one_file_holds_kinetos_events_and_jumars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(trace, "CHUNK", chunk)
    (tmp_path / "k.json").write_text(KINETO % BASE_NS)
    write_trace(tmp_path / "k.json", _log(), tmp_path / "t.json.gz", open_step=7)
    events = _read(tmp_path / "t.json.gz")["traceEvents"]
    named = {event["name"]: event for event in events}
    assert "ProfilerStep#7" not in named
    assert named["unfinished step 7"]["dur"] == 3
    assert "a b" in named
    gc = named["gc generation 2"]
    assert (gc["cat"], gc["ts"], gc["dur"], gc["args"]) == ("jumar", 1234.567, 89.001, {"collected": 3})
    assert (gc["pid"], gc["tid"]) == (os.getpid(), threading.get_native_id() + LANE_OFFSET)
    assert (named["loader queue"]["ph"], named["loader queue"]["args"]) == ("C", {"batches": 3})
    assert {event["args"]["name"] for event in events if event["ph"] == "M" and event["pid"] == 4711} == {
        "data loader worker 0"
    }


def test_without_kineto_the_trace_begins_with_the_earliest_event(tmp_path: Path) -> None:
    write_trace(None, _log(), tmp_path / "t.json.gz")
    document = _read(tmp_path / "t.json.gz")
    assert document["baseTimeNanoseconds"] == BASE_NS + 10
    assert min(event["ts"] for event in document["traceEvents"] if event["ph"] == "X") == 0


def test_an_empty_log_leaves_kinetos_file_valid(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(KINETO % BASE_NS)
    write_trace(tmp_path / "k.json", EventLog(), tmp_path / "t.json.gz")
    assert len(_read(tmp_path / "t.json.gz")["traceEvents"]) == 2
    (tmp_path / "e.json").write_text('{\n"baseTimeNanoseconds": 5,\n"traceEvents": [\n]}')
    write_trace(tmp_path / "e.json", _log(), tmp_path / "e.json.gz")
    assert len(_read(tmp_path / "e.json.gz")["traceEvents"]) == 6


def test_a_file_that_is_no_trace_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text("{}")
    with pytest.raises(OSError, match="unknown form"):
        write_trace(tmp_path / "k.json", _log(), tmp_path / "t.json.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["k.json"]


def test_too_many_events_are_counted_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.capture.profile.log.MOST_EVENTS", 10)
    log = EventLog()
    for number in range(13):
        log.take(Event(str(number), number, 1, 1, 1, {}))
    assert (log.num_dropped, log.earliest_ns) == (3, 3)


def _times(**phases: list[float]) -> list[StepTime]:
    found: list[StepTime] = []
    for phase, values in phases.items():
        found += [StepTime(len(found) + at, phase.replace("_", "-"), value) for at, value in enumerate(values)]
    return found


def test_overhead_compares_traced_steps_with_those_around_the_window() -> None:
    found = overhead(_times(skip=[900, 50, 1, 1.1, 0.9], warm_up=[30], active=[3, 2, 2.2], after=[1.2, 1, 1.3, 70]))
    assert found["plain_ms"]["steps"] == [2, 3, 4, 9, 10, 11]
    assert (found["plain_ms"]["median"], found["traced_ms"]["median"]) == (1.05, 2.2)
    assert (found["ratio"], found["is_within_noise"]) == (2.095, False)


def test_the_first_step_and_steps_that_compile_are_no_measure() -> None:
    times = [*_times(skip=[900]), StepTime(1, "skip", 500, is_usual=False), *_times(active=[4])]
    found = overhead([*times[:2], StepTime(2, "active", 4)])
    assert (found["plain_ms"], found["ratio"], found["is_within_noise"]) == (None, None, None)


def test_one_plain_step_is_no_range() -> None:
    times = [StepTime(1, "skip", 2), StepTime(2, "active", 2)]
    assert overhead(times)["is_within_noise"] is False
