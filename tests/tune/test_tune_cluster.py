"""Many machines: trials on the workers of a cluster, and nothing is lost with a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import odd_providers as odd
import pytest
from tune_builders import QUICK, mm_task, pool_task

from jumar.errors import UsageError
from jumar.tune.cluster.address import parse_address
from jumar.tune.machine import this_machine
from jumar.tune.policy import Policy
from jumar.tune.worker import Limits, Trial

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
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install .jumar\[cluster\]"):
        parse_address("local")


def trial(provider, task=None, seed=0) -> Trial:
    return Trial(
        task=task or mm_task(), incumbent=(), candidate=(Policy(kind="Impl", provider=provider.name),), num_threads=1,
        effort=QUICK, seed=seed,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    from jumar.tune.cluster import Cluster

    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), path]).rstrip(os.pathsep)
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


REFUSED = """
from dataclasses import replace
from jumar.tune.cluster import Cluster
from jumar.tune.errors import TuneError
from jumar.tune.machine import this_machine
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
