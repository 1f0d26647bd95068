"""Job files: what was measured is not measured again, and no kill, full disk or foreign file harms a run."""

from __future__ import annotations

import json
import math
import os
import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tune_builders import MACHINE, gain, mm_task

from jumar.tune.measure.measuring import Measurer, OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.parallel import ParallelBuilders
from jumar.tune.measure.resume import FOLDER, JobFile, trial_key
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial
from jumar.tune.model.task import Policy

MEASURED = Outcome(status="measured", phase="measure", gain=gain(1.3), worst_error=1e-7, allowed_error=1e-6)


def trial(number: int = 0, **fields) -> Trial:
    policy = Policy(kind="Impl", provider=f"p{number}")
    known = {"task": mm_task(), "incumbent": (), "candidate": (policy,), "num_threads": 1}
    return Trial(**(known | fields))


def job(tmp_path, **fields) -> JobFile:
    known = {"name": "runs/model", "work_keys": ["a", "b"], "machine": MACHINE}
    return JobFile.open(tmp_path, **(known | fields))


def test_what_was_kept_is_found_by_the_next_run_and_gone_after_its_end(tmp_path):
    with job(tmp_path) as first:
        first.keep(trial(), MEASURED)
        first.keep(trial(1), Outcome(status="died", phase="candidate", detail="SIGILL"))
    with job(tmp_path, work_keys=["b", "a"]) as second:
        assert second.notes == ["Going on where an earlier run stopped: 2 screenings taken over."]
        assert second.find(trial()) == MEASURED
        assert second.find(trial(1)).detail == "SIGILL"
        assert second.find(trial(2)) is None
        assert second.num_reused == 2
        second.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        trial(incumbent=(Policy(kind="Format", provider="f"),)),
        trial(seed=1),
        trial(num_threads=2),
        trial(min_gain=0.5),
        trial(task=mm_task(8)),
    ],
)
def test_another_question_has_another_key(other):
    assert trial_key(other) != trial_key(trial())


def test_a_data_file_counts_by_its_contents_and_not_by_its_name(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        with (tmp_path / name).open("wb") as file:
            torch.save({0: torch.full((3,), value)}, file)
    a, b, c = (trial_key(trial(data=str(tmp_path / name))) for name in "abc")
    assert (a == b, a == c) == (True, False)
    (tmp_path / "odd").write_bytes(b"not an archive")
    assert trial_key(trial(data=str(tmp_path / "odd"))) != a


@pytest.mark.parametrize(("status", "phase"), [("busy", "measure"), ("timeout", "candidate"), ("died", "start")])
def test_what_says_nothing_of_the_candidate_is_not_kept(tmp_path, status, phase):
    with job(tmp_path) as first:
        first.keep(trial(), Outcome(status=status, phase=phase))
    with job(tmp_path) as second:
        assert second.num_known == 0


def file_of(tmp_path, num_lines=3) -> tuple[JobFile, bytes]:
    with job(tmp_path) as first:
        for number in range(num_lines):
            first.keep(trial(number), MEASURED)
    return first, first.path.read_bytes()


@given(st.data())
@settings(derandomize=True, max_examples=40, deadline=None)
def test_a_file_cut_anywhere_or_with_any_byte_changed_gives_a_true_beginning(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("job")
    first, whole = file_of(folder)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    if data.draw(st.booleans()):
        del damaged[place:]
    else:
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    first.path.write_bytes(bytes(damaged))
    with job(folder) as second:
        known = [second.find(trial(number)) for number in range(3)]
        assert known == [MEASURED] * second.num_known + [None] * (3 - second.num_known)
        second.keep(trial(9), MEASURED)
    with job(folder) as third:
        assert third.find(trial(9)) == MEASURED
        assert third.num_known == second.num_known


def test_files_of_another_machine_or_other_work_are_named_and_left(tmp_path):
    with job(tmp_path, machine=replace(MACHINE, torch="2.12.0")) as other:
        other.keep(trial(), MEASURED)
    job(tmp_path, work_keys=["c"]).close()
    with job(tmp_path) as own:
        assert own.num_known == 0
        assert len(own.notes) == 2
        assert any("measured on another machine or with other versions" in note for note in own.notes)
        assert any("of other operators or graphs than runs/model holds now" in note for note in own.notes)
        own.finish()
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_a_model_of_another_place_with_equal_graphs_leaves_the_file_as_it_is(tmp_path):
    with job(tmp_path) as first:
        first.keep(trial(), MEASURED)
    with job(tmp_path, name="other/model") as other:
        assert other.num_known == 0
        assert other.notes == [f"{first.path.name} is left alone: it is of runs/model."]
        other.finish()
    with job(tmp_path) as again:
        assert again.find(trial()) == MEASURED


def test_a_run_that_is_to_measure_anew_takes_nothing_from_one_that_is_not(tmp_path):
    with job(tmp_path) as first:
        first.keep(trial(), Outcome(status="failed", phase="candidate", detail="no library"))
    with job(tmp_path, repeat=True) as anew:
        assert anew.find(trial()) is None
        assert anew.notes == [f"{first.path.name} is left alone: it is of a run without REPEAT_TUNE=True."]
        anew.keep(trial(), MEASURED)
    with job(tmp_path, repeat=True) as again:
        assert again.find(trial()) == MEASURED
    with job(tmp_path) as own:
        assert own.find(trial()).status == "failed"


def test_the_same_job_in_two_processes_has_one_file(tmp_path):
    with job(tmp_path) as first, job(tmp_path) as second:
        assert second.path is None
        assert "Another process carries out the same job" in second.notes[0]
        second.keep(trial(), MEASURED)
        second.finish()
        assert first.path.exists()


def test_a_place_that_cannot_be_written_means_a_run_without_a_job_file(tmp_path):
    (tmp_path / FOLDER).write_text("a file is in the way")
    with job(tmp_path) as own:
        assert "Nothing is kept for going on after an interruption" in own.notes[0]
        own.keep(trial(), MEASURED)
        own.finish()


def test_a_full_disk_ends_the_writing_and_leaves_whole_lines(tmp_path, monkeypatch):
    real = os.write

    def short(handle, data):
        if b'"trial"' not in data:
            return real(handle, data)
        real(handle, data[:20])
        raise OSError(28, "No space left on device")

    with job(tmp_path) as own:
        own.keep(trial(), MEASURED)
        monkeypatch.setattr("jumar.tune.measure.resume.os.write", short)
        own.keep(trial(1), MEASURED)
        own.keep(trial(2), MEASURED)
        monkeypatch.undo()
        assert own.notes == ["The job file is no longer kept up to date: No space left on device."]
        assert [json.loads(line) is not None for line in own.path.read_text().splitlines()] == [True, True]
    with job(tmp_path) as next_one:
        assert next_one.num_known == 1


class Scripted:
    """A runner that answers at once and knows what it was asked."""

    def __init__(self, answer=lambda trial: MEASURED):
        self.answer = answer
        self.asked = []

    def run(self, asked, limits):
        self.asked.append(asked)
        return self.answer(asked)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def test_a_screening_of_the_job_file_is_no_trial_and_takes_no_time(tmp_path):
    with job(tmp_path) as first:
        Measurer(TuneOptions(), Scripted(), job=first).screen(trial())
    runner = Scripted()
    with job(tmp_path) as second:
        measurer = Measurer(TuneOptions(max_trials=1), runner, job=second)
        assert measurer.screen(trial()) == MEASURED
        measurer.screen(trial(1))
        with pytest.raises(OutOfBudget, match="--trials"):
            measurer.screen(trial(2))
    assert (len(runner.asked), measurer.num_trials) == (1, 1)
    assert [(one.reused, one.role) for one in measurer.history] == [(True, "screening"), (False, "screening")]


def test_a_worker_that_was_killed_costs_no_candidate():
    answers = iter([Outcome(status="died", detail="the worker process itself was ended"), MEASURED])
    measurer = Measurer(TuneOptions(), Scripted(lambda asked: next(answers)))
    assert measurer.screen(trial()) == MEASURED


def test_the_time_budget_ends_a_run_without_judging_what_was_under_way():
    times = iter([0.0, 0.0, 0.0, 0.0, 99.0, 99.0, 99.0, 99.0])
    measurer = Measurer(
        TuneOptions(time_budget_s=10.0), Scripted(lambda asked: Outcome(status="timeout")), clock=lambda: next(times)
    )
    with pytest.raises(OutOfBudget, match="--time-budget"):
        measurer.screen(trial())


class Hours:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def timed(clock: Hours, budget_s: float, answers=(), **fields):
    """Return a measurer whose trials take all the time they are given, and what they were given."""
    given: list[float] = []

    class Slow(Scripted):
        def run(self, asked, limits):
            given.append(limits.time_s)
            clock.now += limits.time_s
            return Outcome(status="timeout", phase="candidate")

    return Measurer(TuneOptions(time_budget_s=budget_s), Slow(), clock=clock, **fields), given


def test_a_candidate_that_had_its_share_of_a_short_budget_is_not_judged_and_the_next_one_has_its_turn():
    clock = Hours()
    measurer, given = timed(clock, 60.0)
    outcome = measurer.screen(trial(), reserve_s=10.0, limit_s=25.0)
    assert (outcome.status, outcome.detail) == (
        "unfinished",
        "25 s, which the time budget leaves for it, were not enough",
    )
    with pytest.raises(OutOfBudget, match="--time-budget"):
        measurer.screen(trial(1), reserve_s=10.0, limit_s=100.0)
    assert given == [25.0, 25.0], "10 s are kept back"


def test_a_candidate_that_had_its_full_time_is_judged():
    measurer, _ = timed(Hours(), 10_000.0)
    assert measurer.screen(trial(), limit_s=120.0).status == "timeout"
    assert measurer.screen(trial(1)).status == "timeout"


def test_a_candidate_that_deserves_more_than_the_usual_limit_is_not_judged_by_less():
    measurer, given = timed(Hours(), 10_000.0)
    assert measurer.screen(trial(), limit_s=300.0, full_s=600.0).status == "unfinished"
    assert measurer.screen(trial(1), limit_s=600.0, full_s=600.0).status == "timeout"
    short, given = timed(Hours(), 400.0)
    with pytest.raises(OutOfBudget, match="--time-budget"):
        short.confirm(trial(), limit_s=600.0)
    assert given == [460.0], "more than the usual limit, and less than the confirmation deserves"


def test_one_candidate_may_take_most_of_the_time_that_is_left_and_not_all_of_it():
    clock = Hours()
    measurer, given = timed(clock, 100.0)
    assert measurer.share_s() == 70.0
    assert measurer.screen(trial(), limit_s=measurer.share_s()).status == "unfinished"
    assert (given, measurer.share_s()) == ([70.0], 21.0)
    clock.now += 29.5
    assert measurer.share_s() == 1.0
    assert timed(Hours(), 10_000.0)[0].share_s() == 120.0
    assert Measurer(TuneOptions(), Scripted()).share_s() is None


def prepared(outcome: Outcome, **limits: float) -> tuple[Outcome, int]:
    """Return what a screening gives whose preparation gave `outcome`, and how often the runner was asked for it."""
    runner = Scripted()
    measurer = Measurer(TuneOptions(), runner, prepare=lambda trials, *_: [(one, outcome) for one in trials])
    measurer.prepare([trial()], **limits)
    return measurer.screen(trial()), len(runner.asked)


def test_what_was_prepared_for_less_than_it_deserves_is_taken_again():
    late = Outcome(status="timeout", phase="candidate")
    assert prepared(late, limit_s=300.0, full_s=600.0) == (MEASURED, 1)
    assert prepared(late, limit_s=600.0, full_s=600.0) == (late, 0)


def test_what_was_prepared_by_a_worker_that_was_killed_is_taken_again():
    assert prepared(Outcome(status="died", detail="the worker process itself was ended")) == (MEASURED, 1)
    crashed = Outcome(status="died", phase="candidate", detail="SIGSEGV")
    assert prepared(crashed) == (crashed, 0)


def test_what_came_before_the_first_candidate_counts_and_a_confirmation_may_end_a_little_late():
    clock = Hours()
    measurer, given = timed(clock, 60.0, began=70.0)
    assert measurer.elapsed_s() == 30.0
    clock.now = 129.0
    with pytest.raises(OutOfBudget):
        measurer.confirm(trial())
    assert given == [16.0], "a quarter of the budget beyond it"
    with pytest.raises(OutOfBudget):
        measurer.screen(trial())
    assert len(given) == 1


def test_candidates_are_built_in_lanes_and_measured_alone():
    runners = []

    def make():
        runners.append(
            Scripted(lambda asked: Outcome(status="built", phase="candidate") if asked.build_only else MEASURED)
        )
        return runners[-1]

    with ParallelBuilders(make, 3) as lanes:
        measurer = Measurer(TuneOptions(), lanes, prepare=lanes.prepare)
        trials = [trial(number) for number in range(7)]
        measurer.prepare(trials)
        assert sorted(trial_key(replace(one, build_only=False)) for r in runners for one in r.asked) == sorted(
            map(trial_key, trials)
        )
        assert all(one.build_only for r in runners for one in r.asked)
        assert measurer.screen(trials[0]) == MEASURED
        assert not runners[0].asked[-1].build_only
    assert [one.role for one in measurer.history] == ["build"] * 7 + ["screening"]


@pytest.mark.parametrize(
    ("status", "is_final"), [("failed", True), ("timeout", True), ("memory", False), ("died", False)]
)
def test_a_candidate_that_fails_while_it_is_built_is_judged_and_one_that_may_have_lacked_room_is_tried_alone(
    status, is_final
):
    bad = Outcome(status=status, phase="candidate", detail="bad")

    def make():
        return Scripted(lambda asked: bad if asked.build_only else MEASURED)

    with ParallelBuilders(make, 2) as lanes:
        measurer = Measurer(TuneOptions(), lanes, prepare=lanes.prepare)
        measurer.prepare([trial(0), trial(1)])
        assert measurer.screen(trial(0)) == (bad if is_final else MEASURED)
        assert measurer.num_trials == 1


def endless() -> float:
    return math.inf


def test_one_lane_does_nothing_beforehand_and_a_lane_that_cannot_start_says_so():
    alone = Scripted()
    with ParallelBuilders(lambda: alone, 1) as lanes:
        assert lanes.prepare([trial(0), trial(1)], Limits(), endless) == []
    assert alone.asked == []

    def broken(asked):
        raise ValueError("no worker")

    with ParallelBuilders(lambda: Scripted(broken), 2) as lanes, pytest.raises(ValueError, match="no worker"):
        lanes.prepare([trial(0), trial(1)], Limits(), endless)


def test_lanes_begin_nothing_after_the_end_of_the_time_and_do_not_judge_what_that_cut_short():
    given, left_s = [], [3.0]
    side_by_side, lock = threading.Barrier(2, timeout=30), threading.Lock()

    class Hanging(Scripted):
        def run(self, asked, limits):
            side_by_side.wait()
            with lock:
                given.append(limits.time_s)
                left_s[0] -= 1.0
            side_by_side.wait()
            return Outcome(status="timeout", phase="candidate")

    with ParallelBuilders(Hanging, 2) as lanes:
        judged = lanes.prepare([trial(number) for number in range(8)], Limits(time_s=2.0), lambda: left_s[0])
    assert given == [2.0, 2.0, 1.0, 1.0]
    assert len(judged) == 2


def test_what_is_done_beforehand_leaves_what_is_kept_back():
    clock, left_s = Hours(), []

    def prepare(trials, limits, left):
        left_s.append((limits.time_s, left()))
        clock.now += 40.0
        left_s.append(left())
        return []

    measurer = Measurer(TuneOptions(time_budget_s=100.0), Scripted(), prepare=prepare, clock=clock)
    measurer.prepare([trial(0), trial(1)], reserve_s=30.0)
    assert left_s == [(70.0, 70.0), 30.0]
