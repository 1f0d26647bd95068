"""Whatever an engine, the machine or the disk does to a run costs what it must and nothing more."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from odd_engines import OddPlans
from tune_builders import QUICK, mm_row, pool_row, write_recording

from jumar.base.errors import JumarError
from jumar.tune.graph.operators import graph_of
from jumar.tune.measure.resume import FOLDER
from jumar.tune.measure.worker.client import Worker
from jumar.tune.measure.worker.messages import Limits, Trial
from jumar.tune.model.process import Terminated, ending_in_order, reason
from jumar.tune.plan import Plan, Region

LIMITS = Limits(time_s=60, memory_bytes=1 << 30)


def trial(engine: str, **fields) -> Trial:
    from tune_builders import mm_task

    plan = Plan(regions=(Region(nodes=(), engine=engine, version="1"),))
    known = {"task": graph_of(mm_task()), "incumbent": (), "candidate": (plan.policy(),), "num_threads": 1}
    return Trial(**(known | {"effort": QUICK} | fields))


@pytest.fixture(scope="module")
def worker():
    with Worker([OddPlans()]) as running:
        yield running


@pytest.mark.parametrize(
    ("engine", "status", "said"),
    [
        ("illegal", "died", "SIGILL"),
        ("wild", "died", "SIGSEGV"),
        ("hungry", "memory", ""),
        ("oom_killed", "died", "SIGKILL, as the kernel does when memory runs out"),
        ("refuses", "failed", "no such operator"),
        ("nan", "disagrees", "NaN"),
    ],
)
def test_an_engine_that_goes_wrong_is_named_and_the_next_one_is_measured(worker, engine, status, said):
    outcome = worker.run(trial(engine), LIMITS)
    assert (outcome.status, outcome.phase) == (status, "candidate")
    assert said in outcome.detail
    assert worker.run(trial("plain"), LIMITS).status == "measured"


def test_an_engine_that_hangs_is_ended_at_its_limit_also_when_it_does_not_listen(worker):
    begun = time.monotonic()
    outcome = worker.run(trial("stuck"), Limits(time_s=3, memory_bytes=1 << 30))
    assert (outcome.status, outcome.phase) == ("timeout", "candidate")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("engine", ["illegal", "stuck", "refuses"])
def test_building_alone_shows_what_goes_wrong_too(worker, engine):
    outcome = worker.run(trial(engine, build_only=True), Limits(time_s=3, memory_bytes=1 << 30))
    assert outcome.status in {"died", "timeout", "failed"}
    assert worker.run(trial("plain", build_only=True), LIMITS).status == "built"


def test_a_nursery_that_is_killed_costs_one_trial(worker):
    worker.run(trial("plain"), LIMITS)
    worker._process.kill()
    worker._process.wait()
    assert worker.run(trial("plain"), LIMITS).status == "died"
    assert worker.run(trial("plain"), LIMITS).status == "measured"


def test_sigterm_is_an_interruption_with_a_name_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGTERM)

    def terminated():
        with ending_in_order():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)

    with pytest.raises(Terminated) as caught:
        terminated()
    assert (reason(caught.value), reason(KeyboardInterrupt())) == ("SIGTERM", "Ctrl-C")
    assert signal.getsignal(signal.SIGTERM) == before


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import odd_providers as odd
from jumar.tune.model.process import ending_in_order
from test_tune_faults import run
with ending_in_order():
    result = run(Path(sys.argv[1]), [odd.Same(), odd.ReportsForMatrices()])
print(result.stopped_by, result.num_trials)
"""


def run(folder: Path, providers):
    from tune_builders import ONE_THREAD

    from jumar.tune import Bank, TuneOptions, tune

    options = TuneOptions(screening=QUICK, confirmation=QUICK, limits=Limits(time_s=60), min_gain=0.3)
    return tune(
        folder / "recording", bank=Bank.open(folder / "bank"), result_folder=folder, options=options,
        machine=ONE_THREAD, providers=providers,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank").mkdir()
    write_recording(tmp_path / "recording", [[pool_row(duration_us=900.0), mm_row()]])
    return tmp_path


def interrupted(folder: Path, how: int) -> str:
    """Run until a candidate for matrices hangs, then send a signal; return what the run printed."""
    pid_file = folder / "pid"
    command = [sys.executable, "-c", SCRIPT, str(folder), *map(str, Path(__file__).parents[:2])]
    environment = {**os.environ, "JUMAR_TEST_PID": str(pid_file)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 120
    while not (pid_file.exists() and pid_file.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(how)
    out, _ = process.communicate(timeout=60)
    return out.strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_what_was_screened_and_the_next_one_does_not_repeat_it(folder, how):
    import odd_providers as odd

    said = interrupted(folder, how)
    assert said == ("SIGTERM 2" if how == signal.SIGTERM else "")
    (job,) = (folder / FOLDER).iterdir()
    assert len(job.read_text().splitlines()) >= 2
    result = run(folder, [odd.Same()])
    assert result.status == "successful"
    assert [one.reused for one in result.history].count(True) == 1
    assert result.num_trials == 0
    assert "Going on where an earlier run stopped: 2 screenings taken over." in result.notes[0]
    assert not (folder / FOLDER).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_result_folder_that_cannot_be_written_is_one_sentence(folder):
    import odd_providers as odd

    closed = folder / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(JumarError, match="cannot be written"):
        run(closed, [odd.Same()])


def test_a_disk_that_fills_up_under_the_result_file_is_one_sentence_and_the_bank_is_whole(folder, monkeypatch):
    import odd_providers as odd

    from jumar.tune import Bank

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jumar.tune.job.result_file.write_text", full)
    with pytest.raises(JumarError, match=r"cannot be written \(No space left on device\)"):
        run(folder, [odd.Same()])
    assert Bank.open(folder / "bank").problems() == []
    monkeypatch.undo()
    assert [json.loads(path.read_text()) for path in folder.glob("aoe_result_*.json")] == []


@pytest.mark.parametrize("heals", [False, True])
def test_a_disk_that_fills_up_during_a_run_does_not_end_it(folder, monkeypatch, heals):
    import odd_providers as odd

    from jumar.base.files import write_text

    written = []

    def filling(path, text):
        written.append("tuning_time(s)" in text)
        if len(written) > 1 and not (heals and written[-1]):
            raise OSError(28, "No space left on device")
        write_text(path, text)

    monkeypatch.setattr("jumar.tune.job.result_file.write_text", filling)
    result = run(folder, [odd.Same()])
    assert (result.status, len(result.tasks)) == ("successful", 2)
    assert ("No space left on device" in result.result_file_failure) is not heals
    assert ("tuning incomplete" in result.result_file.read_text()) is not heals


def test_what_a_full_disk_kept_from_being_built_is_not_judged_and_not_remembered(folder):
    import odd_providers as odd

    from jumar.tune import Bank

    result = run(folder, [odd.Full()])
    tried = [one.outcome for task in result.tasks for slot in task.slots for one in slot.tried]
    assert [(one.status, one.detail) for one in tried] == [
        ("busy", "a disk is full, or may not be written to: RuntimeError: the backend failed")
    ] * 2
    assert result.num_not_judged() == 2
    assert Bank.open(folder / "bank").entries() == []
    (finding,) = [one for one in result.findings if one.code == "JM507"]
    assert finding.action.startswith("Free space, then tune again")


def test_a_worker_that_finds_no_room_for_a_trials_files_judges_nothing_and_goes_on(monkeypatch):
    from jumar.tune.measure.worker import nursery

    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("jumar.tune.measure.worker.nursery.tempfile.TemporaryFile", full)
    outcome = nursery._raise_child({}, [])
    assert (outcome.status, outcome.phase) == ("busy", "measure")
    assert outcome.detail.endswith("No space left on device")


def test_a_worker_has_the_runs_folder_for_temporary_files_although_it_works_elsewhere(tmp_path, monkeypatch):
    """Where only the working folder can be written to (a container with a read-only root), it is that one."""
    from jumar.tune.measure.worker import client

    asked = []

    def start(command, env, cwd, **_):
        asked.append((env["TMPDIR"], str(cwd)))
        raise ProcessLookupError

    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(client.subprocess, "Popen", start)
    with pytest.raises(ProcessLookupError), Worker([OddPlans()]) as worker:
        worker.run(trial("plain"), LIMITS)
    assert asked == [(str(tmp_path), "/")]


def test_without_any_folder_for_temporary_files_a_run_ends_in_one_sentence(monkeypatch):
    from jumar.tune.measure.worker.client import Turns

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc/absent"])
    with pytest.raises(JumarError, match=r"neither TMPDIR, /tmp, /var/tmp nor the working folder can be written to"):
        Turns()
