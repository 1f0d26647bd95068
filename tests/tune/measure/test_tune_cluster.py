"""Many machines: trials on the workers of a cluster, and nothing is lost with a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import odd_providers as odd
import pytest
from tune_builders import MACHINE, QUICK, measured, mm_task, pool_task

from jumar.base.errors import UsageError
from jumar.base.outside.ray import parse_address
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import this_machine
from jumar.tune.model.process import OwnFolder, Terminated, ending_in_order
from jumar.tune.model.task import Policy

LIMITS = Limits(time_s=60, memory_bytes=2 << 30)


@pytest.mark.parametrize("text", ["ray://head:10001", "ray://10.0.0.1:1", "local"])
def test_an_address_is_taken(text):
    pytest.importorskip("ray")
    assert parse_address(text) == text


@pytest.mark.parametrize("text", ["", "head:10001", "ray://head", "ray://head:0", "ray://head:99999", "http://a:1"])
def test_what_is_no_address_is_one_sentence(text):
    with pytest.raises(UsageError, match=r"must be local or ray://HOST:PORT"):
        parse_address(text)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("jumar.base.outside.ray.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install .jumar\[cluster\]"):
        parse_address("local")


def trial(provider, task=None, seed=0) -> Trial:
    return Trial(
        task=task or mm_task(), incumbent=(), candidate=(Policy(kind="Impl", provider=provider.name),), num_threads=1,
        effort=QUICK, seed=seed,
    )  # fmt: skip


MEASURED = measured(1.3)


class Member:
    """A member that answers as a test says, when it says; an exception is raised when the answer is taken."""

    def __init__(self, answer=MEASURED, *, is_ready=True):
        self.answer, self.is_ready = answer, is_ready
        self.asked = []
        self.run = SimpleNamespace(remote=self._run)
        self.clear = SimpleNamespace(remote=self._clear)
        self.is_cleared = False

    def _run(self, asked, limits, contents):
        self.asked.append((asked["seed"], limits["time_s"]))
        return Future(self)

    def _clear(self):
        self.is_cleared = True
        return Future(self)


class Future:
    def __init__(self, member):
        self.member = member


class Ray:
    """What a cluster uses of Ray."""

    def __init__(self, exceptions):
        self.exceptions = exceptions
        self.killed = []
        self.is_shut_down = False

    def wait(self, futures, num_returns, timeout):
        ready = [one for one in futures if one.member.is_ready][:num_returns]
        return ready, [one for one in futures if one not in ready]

    def get(self, future, timeout=None):
        if isinstance(future.member.answer, Exception):
            raise future.member.answer
        return future.member.answer.to_json()

    def kill(self, actor):
        self.killed.append(actor)

    def shutdown(self):
        self.is_shut_down = True


@pytest.fixture
def ray():
    return Ray(pytest.importorskip("ray").exceptions)


def joined(ray, monkeypatch, *members):
    """Return a cluster of these members."""
    from jumar.tune.measure.cluster import Cluster, runner

    handles = [runner._Handle(actor=actor, name=f"host ({place})") for place, actor in enumerate(members)]
    monkeypatch.setattr(runner, "_connected", lambda address, num_cpus: ray)
    monkeypatch.setattr(Cluster, "_bring_up", lambda self, members_per_node: handles)
    return Cluster("local", [], MACHINE)


def screened(cluster, *seeds, **fields):
    """Return the statuses of trials by their seeds."""
    trials = [trial(odd.Same(), seed=seed) for seed in seeds]
    return {one.seed: outcome.status for one, outcome in cluster.prepare(trials, LIMITS, **fields)}


def broken(ray, said="TuneError: the worker process that measures cannot be started."):
    """Return what Ray raises of a member whose own code raised."""
    trace = f"Traceback (most recent call last):\n{said}"
    return ray.exceptions.RayTaskError("run", trace, TuneError(said), proctitle="ray", pid=1, ip="127.0.0.1")


def test_a_member_that_cannot_measure_is_lost_with_its_reason_and_judges_no_candidate(ray, monkeypatch):
    with joined(ray, monkeypatch, Member(broken(ray)), Member(broken(ray)), Member()) as cluster:
        assert screened(cluster, 1, 2) == {1: "measured", 2: "measured"}
        assert cluster.names == ["host (2)"]
        assert all("It said: TuneError: the worker process that measures" in note for note in cluster.notes)


def test_when_no_member_can_measure_the_run_ends_with_the_reason(ray, monkeypatch):
    said = r"every worker of the cluster is lost.*cannot be started"
    with joined(ray, monkeypatch, Member(broken(ray))) as cluster, pytest.raises(TuneError, match=said):
        screened(cluster, 1)
    assert ray.is_shut_down


def test_a_trial_that_memory_ran_out_with_twice_counts_as_one_that_died(ray, monkeypatch):
    out_of_memory = ray.exceptions.OutOfMemoryError("the node ran out of memory")
    with joined(ray, monkeypatch, Member(out_of_memory), Member(out_of_memory), Member(is_ready=False)) as cluster:
        assert screened(cluster, 1) == {1: "died"}


def test_a_head_that_is_gone_is_one_sentence_and_ray_is_shut_down(ray, monkeypatch):
    def gone(*args, **kwargs):
        raise ConnectionError("Failed during this or a previous request.")

    cluster = joined(ray, monkeypatch, Member())
    ray.wait = ray.kill = gone
    with pytest.raises(TuneError, match="cannot be reached any more: Failed during this"), cluster:
        screened(cluster, 1)
    assert ray.is_shut_down


def test_no_trial_is_begun_after_the_end_of_the_time_and_one_under_way_is_ended_with_it(ray, monkeypatch):
    hanging = Member(Outcome(status="timeout", phase="candidate"))
    with joined(ray, monkeypatch, hanging) as cluster:
        assert screened(cluster, 1, left_s=lambda: 2.0) == {1: "unfinished"}
        assert screened(cluster, 2) == {2: "timeout"}
        assert screened(cluster, 3, left_s=lambda: 0.0) == {}
    assert hanging.asked == [(1, 2.0), (2, LIMITS.time_s)]


def test_sigterm_is_told_from_ctrl_c_although_ray_makes_one_of_both(ray, monkeypatch):
    def waits(futures, num_returns, timeout):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None

    ray.wait = waits
    with ending_in_order(), pytest.raises(Terminated):
        screened(joined(ray, monkeypatch, Member()), 1)


def test_a_member_that_measures_what_nobody_waits_for_gets_nothing_else_meanwhile(ray, monkeypatch):
    quick, slow = Member(), Member(is_ready=False)
    with joined(ray, monkeypatch, quick, slow) as cluster:
        outcomes = cluster.prepare([trial(odd.Same(), seed=seed) for seed in (1, 2)], LIMITS)
        assert next(outcomes)[0].seed == 1
        outcomes.close()
        assert screened(cluster, 3, 4) == {3: "measured", 4: "measured"}
        assert [seed for seed, _ in slow.asked] == [2]
        slow.is_ready = True
        assert screened(cluster, 5, 6) == {5: "measured", 6: "measured"}


def test_members_remove_their_data_before_they_are_ended(ray, monkeypatch):
    free, measuring = Member(), Member(is_ready=False)
    with joined(ray, monkeypatch, free, measuring) as cluster:
        outcomes = cluster.prepare([trial(odd.Same(), seed=seed) for seed in (1, 2)], LIMITS)
        next(outcomes)
        outcomes.close()
    assert (free.is_cleared, measuring.is_cleared) == (True, True)
    assert ray.killed == [free, measuring]


def test_a_folder_that_was_left_behind_is_removed_and_one_in_use_is_not(tmp_path):
    pytest.importorskip("fcntl", reason="folders are kept apart by file locks")
    left, young = tmp_path / "jumar-member-left", tmp_path / "jumar-member-young"
    for folder in (left, young):
        folder.mkdir()
        (folder / "weights.pt").touch()
    os.utime(left, (0, 0))
    first = OwnFolder("jumar-member-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first.path, young])
    os.utime(first.path, (0, 0))
    second = OwnFolder("jumar-member-", tmp_path)
    assert first.path.is_dir()
    for own in (first, second):
        own.remove()
    assert list(tmp_path.iterdir()) == [young]


HOLD = """
import sys
from pathlib import Path
from jumar.tune.measure.worker.client import Turns
with Turns(Path(sys.argv[1])).taken():
    print("taken", flush=True)
    sys.stdin.readline()
"""


def test_a_member_waits_for_its_turn_no_longer_than_a_trial_may_take(tmp_path, monkeypatch):
    pytest.importorskip("fcntl", reason="turns need file locks")
    from jumar.tune.measure.cluster.member import Member as Real

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("jumar.tune.measure.worker.client.Worker._start", lambda self: None)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline().strip() == "taken"
        member = Real([], "cpu", 1)
        found = member.run(trial(odd.Same()).to_json(), {"time_s": 0.2, "memory_bytes": 1 << 30}, "")
        assert (found["status"], found["phase"]) == ("busy", "measure")
        member.clear()
    finally:
        holder.kill()
        holder.communicate()
    assert not list(tmp_path.glob("jumar-member-*"))


def test_a_local_cluster_is_named_so_and_the_handler_of_sigterm_stays(monkeypatch):
    asked = []

    def init(address, **settings):
        asked.append((address, settings["num_cpus"]))
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))

    from jumar.tune.measure.cluster.runner import _connected

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    before = signal.getsignal(signal.SIGTERM)
    try:
        _connected("local", 2)
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)
    assert asked == [("local", 2)]


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    from jumar.tune.measure.cluster import Cluster

    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), path]).rstrip(os.pathsep)
    everyone = [odd.Separable(), odd.Same(), odd.Segfault()]
    try:
        with Cluster("local", everyone, this_machine(), members_per_node=2, num_cpus=2) as running:
            yield running
    finally:
        os.environ["PYTHONPATH"] = path
        if not path:
            del os.environ["PYTHONPATH"]


@pytest.mark.slow
def test_trials_are_measured_by_two_workers_and_a_bad_candidate_costs_itself(cluster):
    assert len(cluster.names) == 2
    trials = [trial(odd.Separable(), pool_task()), trial(odd.Segfault()), trial(odd.Same())]
    outcomes = {one.candidate[0].provider: outcome for one, outcome in cluster.prepare(trials, LIMITS)}
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "separable": "measured", "segfault": "died", "same": "measured",
    }  # fmt: skip
    assert outcomes["separable"].gain.ratio > 1


@pytest.mark.slow
def test_a_worker_that_is_killed_gives_its_trial_back(cluster):
    victim = int(cluster.names[0].rpartition("(")[2].rstrip(")"))
    trials = [trial(odd.Same(), seed=seed) for seed in range(6)]
    killer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    killer.start()
    outcomes = [outcome for _, outcome in cluster.prepare(trials, LIMITS)]
    killer.join()
    assert [outcome.status for outcome in outcomes] == ["measured"] * 6
    deadline = time.monotonic() + 30
    while len(cluster.names) == 2 and time.monotonic() < deadline:
        list(cluster.prepare([trial(odd.Same()), trial(odd.Same(), seed=9)], LIMITS))
    assert len(cluster.names) == 1
    assert any("was lost; its trial was handed to another worker" in note for note in cluster.notes)


RUN_AND_GO = """
import signal, tempfile
from pathlib import Path
from jumar.tune.measure.cluster import Cluster
from jumar.tune.model.process import ending_in_order
from jumar.tune.model.machine import this_machine

def left():
    return list(Path(tempfile.gettempdir()).glob("jumar-member-*"))

with ending_in_order():
    before = signal.getsignal(signal.SIGTERM)
    with Cluster("local", [], this_machine(), num_cpus=1) as cluster:
        print(len(cluster.names), signal.getsignal(signal.SIGTERM) == before, len(left()))
print(len(left()))
"""


@pytest.mark.slow
def test_a_run_on_a_cluster_of_its_own_keeps_its_signals_and_leaves_nothing_behind(tmp_path):
    pytest.importorskip("ray")
    own = {**os.environ, "TMPDIR": str(tmp_path), "RAY_TMPDIR": "/tmp", "RAY_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run([sys.executable, "-c", RUN_AND_GO], capture_output=True, text=True, check=True, env=own)
    assert done.stdout.splitlines() == ["1 True 1", "0"]


REFUSED = """
from dataclasses import replace
from jumar.tune.measure.cluster import Cluster
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import this_machine
try:
    Cluster("local", [], replace(this_machine(), model="another processor"), num_cpus=1)
except TuneError as error:
    print(error)
"""


@pytest.mark.slow
def test_workers_of_another_kind_are_refused_by_name():
    pytest.importorskip("ray")
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True, timeout=120)
    assert "the cluster has no machine like this one" in done.stdout
    assert "is refused: it has model" in done.stdout
    assert "not another processor" in done.stdout
