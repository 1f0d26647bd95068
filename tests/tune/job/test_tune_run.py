"""A whole run: recording in; bank, result file and findings out; stopped, resumed, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import odd_providers as odd
import pytest
from tune_builders import ONE_THREAD, QUICK, call, measured, mm_row, pool_row, tensor, write_recording

from jumar.base.errors import InputError, UsageError
from jumar.base.rules import documentation, rules_of
from jumar.tune import Bank, TuneOptions, rules, tune
from jumar.tune.measure.options import parse_duration_s, parse_percent
from jumar.tune.measure.resume import FOLDER
from jumar.tune.measure.worker.client import Worker
from jumar.tune.measure.worker.messages import Limits, Outcome
from jumar.tune.providers.pytorch import Inductor

LIMITS = Limits(time_s=30, memory_bytes=2 << 30)


def options(**fields) -> TuneOptions:
    return TuneOptions(**({"screening": QUICK, "confirmation": QUICK, "limits": LIMITS, "min_gain": 0.3} | fields))


class Kept:
    """A worker that outlives a run: starting one takes seconds."""

    def __init__(self, worker: Worker) -> None:
        self.run = worker.run

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@pytest.fixture(scope="module")
def worker():
    everyone = [odd.Separable(), odd.Same(), odd.Segfault(), odd.Hang(), odd.Wrong(), odd.Raises(), odd.Exits()]
    with Worker(everyone) as worker:
        yield worker


@pytest.fixture(autouse=True)
def kept_worker(worker, monkeypatch):
    monkeypatch.setattr("jumar.tune.job.tuner.Worker", lambda *_: Kept(worker))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bank").mkdir()
    write_recording(tmp_path / "recording", [[pool_row(duration_us=900.0), mm_row(), mm_row(module="other")]])
    return tmp_path


def run(folder: Path, providers, **fields):
    return tune(
        folder / "recording", bank=Bank.open(folder / "bank"), result_folder=folder, options=options(**fields),
        machine=ONE_THREAD, providers=providers,
    )  # fmt: skip


def opat(result) -> dict:
    (report,) = json.loads(result.result_file.read_text("utf-8")).values()
    return report[1]["OPAT"]


def test_a_true_gain_goes_into_the_bank_and_the_second_run_measures_nothing(folder):
    first = run(folder, [odd.Separable()])
    assert (first.status, first.counters().add, first.num_trials) == ("successful", 1, 1)
    assert [(f.code, f.where.module_path) for f in first.findings] == [("JM501", "pool")]
    (operator,) = opat(first)["repo_modified_operators"]
    assert operator["op_name"] == "pool/avg_pool2d_OPAT_0"
    assert operator["tune_performance"]["Impl"]["update_mode"] == "add"
    second = run(folder, [odd.Separable()])
    assert (second.counters().reserved, second.counters().hit, second.num_trials) == (1, 1, 0)
    assert opat(second)["repo_summary"]["repo_hit_num"] == 1
    assert opat(second)["repo_modified_operators"] == []


def test_bad_candidates_cost_themselves_only(folder):
    bad = [odd.Segfault(), odd.Raises(), odd.Wrong(), odd.Exits()]
    result = run(folder, [*bad, odd.Separable()])
    assert (result.status, result.counters().add) == ("successful", 1)
    codes = [finding.code for finding in result.findings]
    assert sorted(set(codes)) == ["JM501", "JM502", "JM503"]
    assert any("segfault" in f.message and "SIGSEGV" in f.message and "2 of 2" in f.message for f in result.findings)


def test_nothing_is_accepted_when_nothing_is_faster(folder):
    result = run(folder, [odd.Same()])
    assert (result.counters().add, result.counters().unsatisfied, result.findings) == (0, 2, [])
    assert run(folder, [odd.Same()]).num_trials == 0


def test_trials_end_a_run_that_the_next_one_goes_on_with(folder):
    first = run(folder, [odd.Same()], max_trials=1)
    assert (first.status, first.stopped_by, first.num_trials) == ("incomplete", "--trials", 1)
    assert opat(first)["opat_tuning_result"] == "tuning incomplete"
    second = run(folder, [odd.Same()])
    assert (second.status, second.num_trials) == ("successful", 1)


def test_a_time_budget_ends_a_candidate_and_does_not_judge_it(folder):
    start = time.monotonic()
    result = run(folder, [odd.Hang()], time_budget_s=3.0)
    assert time.monotonic() - start < 25
    assert (result.status, result.stopped_by) == ("incomplete", "--time-budget")
    assert Bank.open(folder / "bank").entries() == []


class HangsOnPools(Kept):
    """Answers at once, but for one candidate, which takes all the time that it is given."""

    def __init__(self) -> None:
        pass

    def run(self, trial, limits):
        if (trial.task.base, trial.candidate[0].provider) == ("avg_pool2d", "hang"):
            time.sleep(limits.time_s)
            return Outcome(status="timeout", phase="candidate", detail="it hangs")
        return measured(0.9)


def test_a_candidate_that_hangs_leaves_time_for_the_others_and_is_taken_up_by_the_next_run(folder, monkeypatch):
    monkeypatch.setattr("jumar.tune.job.tuner.Worker", lambda *_: HangsOnPools())
    result = run(folder, [odd.Hang(), odd.Same()], time_budget_s=3.0)
    assert (result.status, result.stopped_by, result.num_not_judged()) == ("incomplete", "--time-budget", 1)
    pool, product = result.tasks
    assert [one.outcome.status for slot in pool.slots for one in slot.tried] == ["unfinished", "measured"]
    assert [one.outcome.status for slot in product.slots for one in slot.tried] == ["measured", "measured"]
    (entry,) = Bank.open(folder / "bank").entries()
    assert entry.task.base == "mm"
    assert list((folder / FOLDER).iterdir()), "the job has not come to its end"


def test_an_operator_that_cannot_run_here_fails_and_the_others_are_tuned(tmp_path):
    (tmp_path / "bank").mkdir()
    broken = call("aten::mm", [tensor("input.0", 4, 8), tensor("input.1", 4, 8)], module="broken", duration_us=99.0)
    write_recording(tmp_path / "recording", [[broken, mm_row()]])
    result = run(tmp_path, [odd.Same()])
    assert (result.status, result.counters().total) == ("failed", 1)
    assert opat(result)["tuning_failed_operators"] == ["broken/mm_OPAT_0"]
    assert [finding.code for finding in result.findings] == ["JM504"]
    assert "Record on the device" not in result.findings[0].action


def test_a_recording_of_an_npu_is_tuned_on_the_cpu_and_that_is_said(tmp_path):
    (tmp_path / "bank").mkdir()
    write_recording(tmp_path / "recording", [[mm_row()]], device="npu (emulated)")
    (finding,) = run(tmp_path, [odd.Same()]).findings
    assert finding.code == "JM505"
    assert "npu (emulated)" in finding.message
    assert "tuned for cpu" in finding.message


def test_a_busy_machine_is_named_and_what_it_left_open_is_taken_up_again(folder, monkeypatch):
    class Busy(Kept):
        def __init__(self):
            self.run = lambda trial, limits: Outcome(status="busy", phase="measure", detail="3 of 40 pairs")

    with monkeypatch.context() as patch:
        patch.setattr("jumar.tune.job.tuner.Worker", lambda *_: Busy())
        busy = run(folder, [odd.Separable()])
    assert (busy.counters().unsatisfied, busy.num_not_judged()) == (1, 1)
    assert [finding.code for finding in busy.findings] == ["JM507"]
    assert "1 of 1 measurement could not be judged" in busy.findings[0].message
    assert run(folder, [odd.Separable()]).counters().add == 1


class BusyOnce(Kept):
    """Other programs use the machine while one provider is measured for the first time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_busy = True

    def run(self, trial, limits):
        (policy,) = trial.candidate
        self.asked.append(policy.provider)
        if policy.provider == "separable" and self.is_busy:
            return Outcome(status="busy", phase="measure", detail="3 of 40 pairs")
        return measured(0.9)


def test_only_what_a_busy_machine_left_open_is_measured_by_the_next_run(folder, monkeypatch):
    worker = BusyOnce()
    monkeypatch.setattr("jumar.tune.job.tuner.Worker", lambda *_: worker)
    first = run(folder, [odd.Same(), odd.Separable()])
    assert (first.status, first.num_not_judged()) == ("successful", 1)
    worker.asked, worker.is_busy = [], False
    second = run(folder, [odd.Same(), odd.Separable()])
    assert (worker.asked, second.num_not_judged()) == (["separable"], 0)
    assert not (folder / FOLDER).exists()


def test_a_missing_provider_is_left_out_with_a_note(folder):
    result = run(folder, [Inductor(), odd.Same()])
    assert result.providers == ["same"]
    assert [(f.code, "C++ compiler" in f.message) for f in result.findings] == [("JM506", True)]


def test_a_recording_without_operators_is_one_sentence_or_an_empty_answer(tmp_path):
    (tmp_path / "bank").mkdir()
    write_recording(tmp_path / "recording", [[call("aten::relu", [tensor("input.0", 3)])]])
    empty = run(tmp_path, [odd.Same()])
    assert (empty.status, empty.num_tasks, len(empty.not_tuned)) == ("successful", 0, 1)
    write_recording(tmp_path / "modules" / "recording", [[]], levels=("module",))
    with pytest.raises(InputError, match="no rows of operators"):
        tune(tmp_path / "modules" / "recording", bank=Bank.open(tmp_path / "bank"), result_folder=tmp_path)


SCRIPT = """
import sys, os
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import odd_providers as odd
from test_tune_run import run
result = run(Path(sys.argv[1]), [odd.Separable(), odd.ReportsForMatrices()])
print(result.stopped_by, result.counters().add)
"""


def started(folder: Path) -> tuple[subprocess.Popen, int]:
    """Start a run that finds the pool's policy on the way to a candidate that hangs; return it when it hangs."""
    pid_file = folder / "pid"
    environment = {**os.environ, "JUMAR_TEST_PID": str(pid_file)}
    command = [sys.executable, "-c", SCRIPT, str(folder), *map(str, Path(__file__).parents[:2])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 90
    while not (pid_file.exists() and pid_file.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, int(pid_file.read_text())


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the candidate outlives its tuner"
        time.sleep(0.05)


def test_ctrl_c_keeps_what_was_found_and_says_so(folder):
    process, candidate = started(folder)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.strip() == "Ctrl-C 1"
    wait_until_gone(candidate)
    assert_incomplete(folder)


def test_a_killed_run_leaves_a_whole_bank_an_incomplete_file_and_no_process(folder):
    process, candidate = started(folder)
    process.kill()
    process.communicate(timeout=60)
    wait_until_gone(candidate)
    assert_incomplete(folder)
    assert run(folder, [odd.Same()]).status == "successful"


def assert_incomplete(folder: Path) -> None:
    (path,) = folder.glob("aoe_result_opat_*.json")
    (report,) = json.loads(path.read_text("utf-8")).values()
    assert "tuning_time(s)" not in report[0]["basic"]
    assert report[1]["OPAT"]["opat_tuning_result"] == "tuning incomplete"
    assert report[1]["OPAT"]["repo_summary"]["repo_add_num"] == 1
    assert [entry.policy.provider for entry in Bank.open(folder / "bank").entries()] == ["separable"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"job_type": 3}, "--job-type must be 1"),
        ({"min_gain": 99.0}, "--min-gain must be"),
        ({"time_budget_s": 0.0}, "--time-budget must be"),
        ({"max_trials": 0}, "--trials must be"),
    ],
)
def test_an_option_outside_its_range_is_one_sentence(fields, said):
    with pytest.raises(UsageError, match=said):
        TuneOptions(**fields)


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("2", 0.02), (" 0.5 % ", 0.005), ("0", 0.0)])
def test_percentages_are_read(text, value):
    assert parse_percent(text, "--min-gain") == value


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600)])
def test_durations_are_read(text, value):
    assert parse_duration_s(text, "--time-budget") == value


@pytest.mark.parametrize("text", ["", "two", "-1", "2%%", "1d"])
def test_what_is_no_number_is_one_sentence(text):
    with pytest.raises(UsageError, match="Try --min-gain 2%"):
        parse_percent(text, "--min-gain")
    with pytest.raises(UsageError, match="Try --time-budget 2m"):
        parse_duration_s(text, "--time-budget")


@pytest.mark.parametrize("rule", rules_of("tune"), ids=lambda rule: rule.code)
def test_every_rule_is_documented_under_its_code_and_name(rule):
    assert documentation(rule).startswith(f"{rule.code} {rule.name}.")


def test_every_rule_of_a_run_is_asked():
    asked = {*rules._OF_RUNS, *rules._OF_TASKS, *rules._OF_GRAPHS, *rules._OF_PRECISIONS, "machine_busy"}
    assert {path.stem for path in Path(rules.__file__).parent.glob("*.py")} - {"__init__"} == asked
    conditions = Path(rules.__file__).parents[1] / "measure" / "conditions" / "rules"
    assert {path.stem for path in conditions.glob("*.py")} - {"__init__"} == set(rules._OF_CONDITIONS)


def test_the_rules_codes_are_those_of_this_room():
    codes = [rule.code for rule in rules_of("tune")]
    assert codes[:7] == [f"JM50{number}" for number in range(1, 8)]
    assert {code[:3] for code in codes} == {"JM5"}
