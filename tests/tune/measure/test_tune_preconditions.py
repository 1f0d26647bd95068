"""Preconditions: the formulas with their numbers, on the device that they bind."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jumar.base.errors import OutputError
from jumar.base.text import GIB
from jumar.tune.measure.conditions.preconditions import (
    Neighbour,
    Surroundings,
    computing,
    conditions_of,
    look_around,
    profilers,
)
from jumar.tune.measure.conditions.rules import device_shared, few_cores, low_disk, low_memory, profiled
from jumar.tune.measure.conditions.settings import TuneEnvironment
from jumar.tune.model.errors import TuneError

QUIET = Surroundings(
    free_bytes={"/home": 100 * GIB}, memory_bytes=128 * GIB, available_bytes=120 * GIB, num_cores=96, load_average=0.1
)


def conditions(tmp_path, around=QUIET, *, job_type=2, device="cpu", data_bytes=0, thorough=False, **environment):
    return conditions_of(
        around, TuneEnvironment(work_path=tmp_path, **environment), job_type=job_type, device=device,
        data_bytes=data_bytes, thorough=thorough,
    )  # fmt: skip


def findings(given):
    rules = (low_disk, low_memory, few_cores, profiled, device_shared)
    return [(found.code, found.severity.label, found.message) for rule in rules for found in rule.find(given)]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_machine_that_has_all_of_it_gives_no_finding(tmp_path, device):
    assert findings(conditions(tmp_path, device=device)) == []


def test_little_disk_is_said_with_the_formula(tmp_path):
    around = replace(QUIET, free_bytes={"/tmp": GIB}, num_cores=1)
    ((code, severity, message),) = findings(conditions(tmp_path, around, data_bytes=GIB))
    assert (code, severity) == ("JM530", "warning")
    assert "1 GiB are free in /tmp" in message
    assert "(2 + lanes) × data + 1 GiB = (2 + 1) × 1 GiB + 1 GiB = 4 GiB" in message


def test_less_than_the_vendors_disk_is_a_note_beside_an_npu_only(tmp_path):
    around = replace(QUIET, free_bytes={"/home": 18 * GIB})
    assert findings(conditions(tmp_path, around)) == []
    ((code, severity, message),) = findings(conditions(tmp_path, around, device="npu"))
    assert (code, severity, "20 GB that the vendor's" in message) == ("JM530", "info", True)


def test_little_memory_narrows_the_lanes_and_then_is_said(tmp_path):
    given = conditions(tmp_path, replace(QUIET, available_bytes=3 * GIB), data_bytes=GIB)
    assert given.lanes.count == 1
    ((code, _, message),) = findings(given)
    assert (code, "(3 × 1 GiB + 1 GiB) × 1 = 4 GiB" in message) == ("JM531", True)


@pytest.mark.parametrize(("thorough", "least"), [(False, 32), (True, 64)])
def test_the_vendors_memory_binds_beside_an_npu_only(tmp_path, thorough, least):
    around = replace(QUIET, memory_bytes=30 * 10**9)
    assert findings(conditions(tmp_path, around, thorough=thorough)) == []
    ((code, _, message),) = findings(conditions(tmp_path, around, device="npu", thorough=thorough))
    assert (code, f"asks for {least} GB" in message) == ("JM531", True)


@pytest.mark.parametrize(("job_type", "need"), [(2, 8 + 8 + 1 + 8 + 50), (1, 2 * 8 + 8 + 1)])
def test_the_vendors_cores_bind_beside_an_npu_only(tmp_path, job_type, need):
    around = replace(QUIET, num_cores=24)
    assert findings(conditions(tmp_path, around, job_type=job_type)) == []
    ((code, severity, message),) = findings(conditions(tmp_path, around, job_type=job_type, device="npu"))
    assert (code, severity, message.endswith(f"= {need}.")) == ("JM532", "warning", True)


def test_what_was_asked_for_and_does_not_act_is_said(tmp_path):
    around = replace(QUIET, num_cores=2)
    assert findings(conditions(tmp_path, around)) == []
    ((code, severity, message),) = findings(conditions(tmp_path, around, compilers=4, compilers_given=True))
    assert (code, severity) == ("JM532", "info")
    assert "TE_PARALLEL_COMPILER = 4 asked for more" in message
    assert "cores × 0.8 / devices = 2 × 0.8 / 1" in message


def test_the_advice_names_the_variable_that_asked_for_more(tmp_path):
    around = replace(QUIET, num_cores=2)
    (one,) = few_cores.find(conditions(tmp_path, around, tuners=16, tuners_given=True))
    assert one.action == "Set TUNING_PARALLEL_NUM to 1, or leave it out."
    asked = {"compilers": 4, "compilers_given": True, "tuners": 16, "tuners_given": True}
    (both,) = few_cores.find(conditions(tmp_path, around, **asked))
    assert both.action == "Set TE_PARALLEL_COMPILER and TUNING_PARALLEL_NUM to 1, or leave them out."


def test_a_profiler_is_named_and_static_memory_only_beside_an_npu(tmp_path):
    around = replace(QUIET, profilers=("PyTorch's profiler",), static_memory="1")
    assert [code for code, _, _ in findings(conditions(tmp_path, around))] == ["JM533"]
    messages = [message for _, _, message in findings(conditions(tmp_path, around, device="npu"))]
    assert ["PyTorch's profiler" in messages[0], "static_memory_policy must be 0" in messages[1]] == [True, True]


def test_neighbours_and_load_are_one_finding(tmp_path):
    around = replace(
        QUIET, load_average=60.0, neighbours=tuple(Neighbour(pid=n, name=f"p{n}", share=1.0) for n in range(5))
    )
    ((code, _, message),) = findings(conditions(tmp_path, around))
    assert code == "JM534"
    assert message == (
        "5 other processes compute: `p0` (1.0 cores), `p1` (1.0 cores), `p2` (1.0 cores) and 2 more; "
        "the load average of the last minute is 60.0 on 96 cores."
    )


def test_a_run_that_cannot_work_is_refused(tmp_path):
    conditions(tmp_path).refuse_impossible()
    with pytest.raises(OutputError, match="must have 4 MiB free for the result file; it has 1"):
        conditions(tmp_path, replace(QUIET, free_bytes={str(tmp_path): 1 << 20})).refuse_impossible()
    with pytest.raises(TuneError, match="needs 512 MiB of memory for its worker process, and 10 MiB are available"):
        conditions(tmp_path, replace(QUIET, available_bytes=10 << 20)).refuse_impossible()


def test_this_machine_can_be_looked_at(tmp_path):
    around = look_around({}, TuneEnvironment(work_path=tmp_path), watch_s=0.01)
    assert around.free_bytes[str(tmp_path)] > 0
    assert around.num_cores >= 1


def test_a_user_without_a_home_folder_is_no_hindrance(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert str(tmp_path) in look_around({}, TuneEnvironment(work_path=tmp_path), watch_s=0.01).free_bytes


def test_a_container_bounds_memory_and_cores(tmp_path):
    root = tmp_path / "root"
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text("MemTotal: 8192 kB\nMemAvailable: 4096 kB\n")
    (group / "memory.max").write_text("3000000\n")
    (group / "memory.current").write_text("2500000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 100000\n")
    (group / "cpu.max").write_text("100000 100000\n")
    around = look_around({}, TuneEnvironment(work_path=tmp_path), root=root, watch_s=0.0)
    assert (around.memory_bytes, around.available_bytes, around.num_cores) == (3_000_000, 600_000, 1)


def stat(pid, name, parent, ticks):
    return f"{pid} ({name}) R {parent} " + " ".join(["0"] * 9) + f" {ticks} 0 0 0"


def test_processes_that_compute_are_seen_and_our_own_family_is_not(tmp_path, monkeypatch):
    own, child, other = os.getpid(), os.getpid() + 1, os.getpid() + 2
    for pid in (own, child, other):
        (tmp_path / str(pid)).mkdir()
    (tmp_path / "self").mkdir()

    def write(ticks):
        for pid, name, parent in ((own, "us", 1), (child, "ours", own), (other, "a (b) c", 1)):
            (tmp_path / str(pid) / "stat").write_text(stat(pid, name, parent, ticks))

    write(0)
    monkeypatch.setattr("jumar.tune.measure.conditions.preconditions.time.sleep", lambda seconds: write(1000))
    (found,) = computing(tmp_path, 0.0)
    assert (found.pid, found.name) == (other, "a (b) c")


def test_a_tracer_and_switches_are_seen(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name: x\nTracerPid:\t42\n")
    known = list(profilers({"PROFILING_MODE": "true", "GE_PROFILING_TO_STD_OUT": "0"}, tmp_path))
    assert "process 42, which traces this one" in known
    assert "the vendor's profiler (PROFILING_MODE)" in known
    assert not any("GE_PROFILING" in words for words in known)


def test_a_python_profiler_is_seen(tmp_path):
    before = sys.getprofile()
    sys.setprofile(lambda *event: None)
    try:
        found = profilers({}, tmp_path)
    finally:
        sys.setprofile(before)
    assert "a Python profiler (sys.setprofile)" in found
