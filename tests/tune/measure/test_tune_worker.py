"""A candidate that goes wrong costs itself only, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import odd_providers as odd
import pytest
from tune_builders import QUICK, mm_task, pool_task

from jumar.tune.measure.worker import nursery
from jumar.tune.measure.worker.client import Worker
from jumar.tune.measure.worker.messages import Limits, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Policy
from jumar.tune.providers.base import Provider

ALL = [
    odd.Separable(), odd.Same(), odd.Segfault(), odd.Hang(), odd.Greedy(), odd.Wrong(), odd.Cached(), odd.Raises(),
    odd.Chatty(), odd.Exits(), odd.Reports(),
]  # fmt: skip
LIMITS = Limits(time_s=60, memory_bytes=2 << 30)


def trial(provider: Provider, **fields) -> Trial:
    known = {"task": mm_task(), "incumbent": (), "candidate": (provider.policy(),), "num_threads": 1, "effort": QUICK}
    return Trial(**(known | fields))


@pytest.fixture(scope="module")
def worker():
    with Worker(ALL) as worker:
        yield worker


def test_an_honest_gain_is_measured_with_its_interval(worker):
    outcome = worker.run(trial(odd.Separable(), task=pool_task()), LIMITS)
    assert (outcome.status, outcome.detail) == ("measured", "")
    assert outcome.gain.clears(0.02)
    assert outcome.gain.num_pairs >= QUICK.min_pairs
    assert outcome.worst_error <= outcome.allowed_error


def test_the_same_function_does_not_clear_the_gate(worker):
    outcome = worker.run(trial(odd.Same(), min_gain=0.3), LIMITS)
    assert outcome.status == "measured"
    assert not outcome.gain.clears(0.3)


def test_a_crash_is_named_by_its_signal_and_the_worker_goes_on(worker):
    outcome = worker.run(trial(odd.Segfault()), LIMITS)
    assert (outcome.status, outcome.phase) == ("died", "candidate")
    assert "SIGSEGV" in outcome.detail
    assert worker.run(trial(odd.Same()), LIMITS).status == "measured"


def test_a_hang_is_ended_at_its_time_limit(worker):
    start = time.monotonic()
    outcome = worker.run(trial(odd.Hang()), replace(LIMITS, time_s=2))
    assert (outcome.status, outcome.phase) == ("timeout", "candidate")
    assert "limit of 2 s" in outcome.detail
    assert time.monotonic() - start < 30


def test_too_much_memory_is_refused_at_the_limit(worker):
    outcome = worker.run(trial(odd.Greedy()), replace(LIMITS, memory_bytes=1 << 30))
    assert (outcome.status, outcome.phase) == ("memory", "candidate")


@pytest.mark.parametrize("provider", [odd.Wrong(), odd.Cached()])
def test_wrong_numbers_are_never_timed(worker, provider):
    outcome = worker.run(trial(provider), LIMITS)
    assert outcome.status == "disagrees"
    assert outcome.gain is None
    assert outcome.worst_error > outcome.allowed_error


def test_an_exception_is_the_candidates_own(worker):
    outcome = worker.run(trial(odd.Raises()), LIMITS)
    assert (outcome.status, outcome.detail) == ("failed", "ZeroDivisionError: of no use")


def test_what_a_candidate_prints_does_not_mix_with_the_answer(worker):
    assert worker.run(trial(odd.Chatty()), LIMITS).gain is not None


def test_leaving_without_an_answer_is_no_measurement(worker):
    outcome = worker.run(trial(odd.Exits()), LIMITS)
    assert (outcome.status, outcome.detail) == ("died", "it exited with code 7 without an answer")


def test_an_operator_that_cannot_run_is_not_the_candidates_fault(worker):
    unrunnable = replace(mm_task(), tensors={"self": mm_task().tensors["self"], "mat2": mm_task().tensors["self"]})
    outcome = worker.run(trial(odd.Same(), task=unrunnable), LIMITS)
    assert (outcome.status, outcome.phase) == ("task-failed", "task")


def test_closing_the_worker_ends_the_candidate_too(tmp_path, monkeypatch):
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("JUMAR_TEST_PID", str(pid_file))
    import threading

    with Worker([odd.Reports()]) as worker:
        thread = threading.Thread(target=worker.run, args=(trial(odd.Reports()), LIMITS))
        thread.start()
        pid = wait_for_pid(pid_file)
        worker._process.stdin.close()  # what the kernel does when the tuner is killed
        wait_until_gone(pid)
        thread.join(20)
    assert not is_alive(pid)


def test_a_worker_that_is_killed_is_one_lost_trial(worker):
    worker.run(trial(odd.Same()), LIMITS)
    worker._process.kill()
    assert worker.run(trial(odd.Same()), LIMITS).status == "died"
    assert worker.run(trial(odd.Same()), LIMITS).status == "measured"


def test_a_provider_that_cannot_be_imported_is_one_sentence():
    class Local(odd.Odd):
        name = "local"

    with Worker([Local()]) as worker, pytest.raises(TuneError, match="cannot be started"):
        worker.run(trial(Local()), LIMITS)


def test_a_policy_without_a_provider_fails_before_anything_is_timed(worker):
    unknown = Policy(kind="Impl", provider="tvm")
    outcome = worker.run(trial(odd.Same(), candidate=(unknown,)), LIMITS)
    assert outcome.status == "failed"
    assert "tvm" in outcome.detail


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError("the candidate did not begin")


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_child_that_has_no_group_of_its_own_yet_is_ended_at_its_limit_too():
    """A limit of a millisecond may be over before the child has left its parent's group."""
    start = time.monotonic()
    with subprocess.Popen(["sleep", "20"], stdout=subprocess.PIPE) as child:
        assert nursery._watch(child.pid, child.stdout.fileno(), 0.0) == ([], None)
    assert time.monotonic() - start < 10


def test_trials_are_carried_out_where_whoever_started_the_tuner_ignores_the_end_of_children():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Worker([odd.Same()]) as worker:
            assert worker.run(trial(odd.Same()), LIMITS).status == "measured"
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_what_is_printed_when_python_starts_is_no_answer_of_the_worker(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('Welcome to the cluster!')\nprint('loaded: ', end='')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Worker([odd.Same()]) as worker:
        assert worker.run(trial(odd.Same()), LIMITS).status == "measured"
