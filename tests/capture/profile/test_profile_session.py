"""A profile within a program: which steps are in the trace, what is said of those that are not, and what is left."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim.optimizer import Optimizer
from torch.utils.data import dataloader

import jumar
from jumar.base.errors import OutputError, UsageError
from jumar.capture.profile import window
from jumar.capture.profile.plan import ENVIRONMENT, NUM_PLAIN
from jumar.capture.profile.session import ProfileSession
from jumar.timeline.formats import kineto
from jumar.timeline.model.events import Kind


def _marks(events: list[dict]) -> list[str]:
    found = sorted((event for event in events if "ProfilerStep#" in event["name"]), key=lambda event: event["ts"])
    return [event["name"] for event in found]


def test_the_trace_holds_the_steps_that_were_asked_for(tmp_path: Path, loop, events, rank_facts) -> None:
    with jumar.profile(tmp_path / "p", schedule=(2, 1, 3)):
        loop(12)
    found = events(tmp_path / "p" / "rank-0.json.gz")
    assert _marks(found) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert sum(event["name"] == "aten::addmm" for event in found if event.get("cat") == "cpu_op") == 6
    facts = rank_facts(tmp_path / "p")
    assert (facts["status"], facts["is_complete"], facts["num_traced"], facts["not_covered"]) == (
        "finished",
        True,
        3,
        [],
    )
    assert facts["overhead"]["traced_ms"]["steps"] == [3, 4, 5]
    assert facts["overhead"]["plain_ms"]["steps"] == [1, 6, 7, 8]
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "host-rank-0.jsonl",
        "profile.json",
        "rank-0.json.gz",
    ]


def test_no_range_of_the_program_crosses_the_border_of_a_step(tmp_path: Path, loop, events) -> None:
    with jumar.profile(tmp_path / "p", steps=(1, 4)):
        loop(6)
    found = events(tmp_path / "p" / "rank-0.json.gz")
    steps = [(event["ts"], event["ts"] + event["dur"]) for event in found if "ProfilerStep#" in event["name"]]
    inside = [event for event in found if event["name"].startswith("Optimizer.step")]
    assert len(inside) == 3
    for event in inside:
        assert any(begin <= event["ts"] and event["ts"] + event["dur"] <= end for begin, end in steps)


def test_jumars_steps_lie_on_kinetos_clock(tmp_path: Path, loop, events) -> None:
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 3)):
        loop(6, lambda _: torch.linalg.det(torch.eye(40)))
    found = {event["name"]: event for event in events(tmp_path / "p" / "rank-0.json.gz") if event["ph"] == "X"}
    for step in (1, 2, 3):
        own, kinetos = found[f"step {step}"], found[f"ProfilerStep#{step}"]
        assert own["args"] == {"phase": "active"}
        assert abs(own["ts"] - kinetos["ts"]) < 2000
    assert found["step 0"]["args"] == {"phase": "skip"}


def test_after_the_window_nothing_of_it_is_left_in_the_run(tmp_path: Path, loop) -> None:
    def state() -> tuple:
        return (
            list(gc.callbacks), torch.optim.SGD.step, dict(hooks._global_forward_pre_hooks), Optimizer.__init__,
            dataloader._DatasetKind.create_fetcher, dataloader._BaseDataLoaderIter.__next__,
            torch.profiler.profile.prepare_trace, os.environ.get(ENVIRONMENT),
        )  # fmt: skip

    loop(1)
    before, during, after = state(), [], []

    def look(step: int) -> None:
        (during if step < 3 + NUM_PLAIN else after).append(state()[:-1])

    with jumar.profile(tmp_path / "p", schedule=(1, 1, 1)):
        loop(9, look)
    assert all(found[0] != before[0] and found[1] is not before[1] for found in during[:-1])
    assert all(found == before[:-1] for found in after)
    assert state() == before


def test_a_loop_may_say_where_its_steps_end(tmp_path: Path, loop, events) -> None:
    with jumar.profile(tmp_path / "p", schedule=(1, 1, 2)) as profile:
        loop(6, lambda _: profile.step(), updates_a_step=3)
    found = events(tmp_path / "p" / "rank-0.json.gz")
    assert _marks(found) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert sum(event["name"].startswith("Optimizer.step") for event in found) == 6


def test_without_an_optimizer_a_step_is_a_call_of_the_model(tmp_path: Path, events) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 2)):
        for _ in range(6):
            model(torch.ones(1, 4))
    assert _marks(events(tmp_path / "p" / "rank-0.json.gz")) == ["ProfilerStep#1", "ProfilerStep#2"]


def test_calls_before_the_optimizer_are_no_steps(tmp_path: Path, events, rank_facts) -> None:
    model = nn.Linear(4, 1)
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 2)):
        for _ in range(3):
            model(torch.ones(1, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    found = events(tmp_path / "p" / "rank-0.json.gz")
    assert _marks(found) == ["ProfilerStep#1", "ProfilerStep#2"]
    assert sum(event["name"].startswith("Optimizer.step") for event in found) == 2
    assert [event["name"] for event in found if event["name"].startswith("step ")] == ["step 0", "step 1", "step 2"]


def test_a_program_that_ends_early_says_what_is_missing(tmp_path: Path, loop, events, rank_facts) -> None:
    with jumar.profile(tmp_path / "p", schedule=(1, 1, 9)):
        loop(4)
    assert _marks(events(tmp_path / "p" / "rank-0.json.gz")) == ["ProfilerStep#2", "ProfilerStep#3"]
    assert any(event["name"] == "unfinished step 4" for event in events(tmp_path / "p" / "rank-0.json.gz"))
    facts = rank_facts(tmp_path / "p")
    assert (facts["is_complete"], facts["num_traced"]) == (False, 2)
    assert facts["not_covered"] == ["steps 4 to 10: the script completed 4 steps"]


def test_a_program_that_makes_no_step_says_so(tmp_path: Path, rank_facts) -> None:
    with jumar.profile(tmp_path / "p"):
        torch.ones(1)
    facts = rank_facts(tmp_path / "p")
    assert facts["status"] == "finished"
    assert "the script completed no step" in facts["not_covered"][0]


def test_too_few_steps_for_the_window(tmp_path: Path, loop, rank_facts) -> None:
    with jumar.profile(tmp_path / "p", schedule=(9, 0, 1)):
        loop(2)
    assert "completed 2 steps. Profile earlier ones" in rank_facts(tmp_path / "p")["not_covered"][0]


def test_what_the_block_raises_is_passed_on_and_told(tmp_path: Path, loop, events, rank_facts) -> None:
    def fail(step: int) -> None:
        if step == 3:
            raise ValueError("diverged")

    with pytest.raises(ValueError, match="diverged"), jumar.profile(tmp_path / "p", schedule=(1, 0, 9)):
        loop(9, fail)
    assert _marks(events(tmp_path / "p" / "rank-0.json.gz")) == [f"ProfilerStep#{step}" for step in (1, 2, 3)]
    facts = rank_facts(tmp_path / "p")
    assert (facts["status"], "diverged" in facts["error"]) == ("raised", True)


def test_a_profiler_of_the_programs_own_gets_the_way(tmp_path: Path, loop, events, rank_facts) -> None:
    found: list[int] = []

    def own(step: int) -> None:
        if step == 3:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
                torch.ones(2) + 1
            found.append(sum(event.name == "aten::add" for event in theirs.events()))

    with jumar.profile(tmp_path / "p", schedule=(1, 0, 6)):
        loop(12, own)
    assert found == [1]
    assert _marks(events(tmp_path / "p" / "rank-0.json.gz")) == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    facts = rank_facts(tmp_path / "p")
    assert "started a profiler of its own in step 4" in facts["not_covered"][0]
    assert facts["overhead"]["traced_ms"]["steps"] == [1, 2, 3]


def test_a_profiler_of_the_programs_own_that_runs_already_is_left_alone(tmp_path: Path, loop, rank_facts) -> None:
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs,
        jumar.profile(tmp_path / "p", schedule=(1, 0, 2)),
    ):
        loop(5)
    assert any(event.name == "aten::addmm" for event in theirs.events())
    facts = rank_facts(tmp_path / "p")
    assert "the script's own profiler was running when step 1 began" in facts["not_covered"][0]
    assert facts["overhead"]["traced_ms"] is None


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [({"time_limit_s": 1e-6}, "time limit of 1e-06 s was reached"), ({"growth_limit": "1"}, "process grew by")],
)
def test_a_limit_ends_the_window_at_a_border(
    tmp_path: Path, loop, events, rank_facts, monkeypatch: pytest.MonkeyPatch, limit: dict, sentence: str
) -> None:
    sizes = iter(range(1000, 10**6, 1000))
    monkeypatch.setattr("jumar.capture.profile.collection.rss_bytes", lambda: next(sizes))
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 9), **limit):
        loop(12)
    assert _marks(events(tmp_path / "p" / "rank-0.json.gz")) == ["ProfilerStep#1"]
    facts = rank_facts(tmp_path / "p")
    assert (facts["is_complete"], sentence in facts["not_covered"][0]) == (False, True)


def test_a_profiler_that_fails_does_not_end_the_program(
    tmp_path: Path, loop, rank_facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(window, "write_trace", fail)
    done: list[int] = []
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 2)):
        loop(8, done.append)
    assert len(done) == 8
    facts = rank_facts(tmp_path / "p")
    assert facts["status"] == "finished"
    assert "No space left on device" in facts["not_covered"][0]
    assert not list((tmp_path / "p").glob(".kineto*"))


@pytest.mark.slow
def test_shapes_stacks_and_memory_are_in_the_trace_when_asked_for(tmp_path: Path, loop, events) -> None:
    with jumar.profile(tmp_path / "with", schedule=(1, 1, 1), stacks=True, memory=True):
        loop(4)
    with jumar.profile(tmp_path / "without", schedule=(1, 1, 1), shapes=False):
        loop(4)
    rich, poor = (events(tmp_path / name / "rank-0.json.gz") for name in ("with", "without"))
    assert any("Input Dims" in event.get("args", {}) for event in rich)
    assert any(event.get("cat") == "python_function" for event in rich)
    assert any(event["name"] == "[memory]" for event in rich)
    assert not any("Input Dims" in event.get("args", {}) for event in poor)
    assert not any(event.get("cat") == "python_function" or event["name"] == "[memory]" for event in poor)


def test_two_profiles_at_once_are_refused(tmp_path: Path) -> None:
    with jumar.profile(tmp_path / "p"), pytest.raises(UsageError, match="under way"):
        ProfileSession(jumar.profile(tmp_path / "q").plan)
    with pytest.raises(OutputError, match="pass --force"), jumar.profile(tmp_path / "p"):
        pass


def test_a_block_within_a_profile_joins_it(tmp_path: Path, loop, events) -> None:
    with jumar.profile(tmp_path / "outer", schedule=(1, 0, 1)):
        with jumar.profile(tmp_path / "inner") as inner:
            loop(4, lambda _: inner.step())
        assert ProfileSession.current is not None
    assert _marks(events(tmp_path / "outer" / "rank-0.json.gz")) == ["ProfilerStep#1"]
    assert not (tmp_path / "inner").exists()


def test_a_rank_that_was_not_asked_for_is_left_alone(tmp_path: Path, loop, capsys: pytest.CaptureFixture) -> None:
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 1), ranks=[1]):
        loop(4)
    assert not (tmp_path / "p" / "rank-0.json.gz").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_clock_of_a_step_stands_still_while_the_trace_is_written(
    tmp_path: Path, loop, rank_facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    write = window.write_trace
    monkeypatch.setattr(window, "write_trace", lambda *args, **more: (time.sleep(0.5), write(*args, **more)))
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 1)):
        loop(9)
    assert rank_facts(tmp_path / "p")["overhead"]["plain_ms"]["most"] < 400


@pytest.mark.slow
def test_collections_in_the_run_are_counted(tmp_path: Path, loop, rank_facts) -> None:
    with jumar.profile(tmp_path / "p", schedule=(1, 0, 1)):
        loop(3, lambda _: gc.collect())
    assert rank_facts(tmp_path / "p")["collections"]["2"]["num"] >= 3


def test_a_timeline_is_read_from_it(tmp_path: Path, loop) -> None:
    def collect(step: int) -> None:
        if step == 3:
            gc.collect()

    with jumar.profile(tmp_path / "p", schedule=(2, 0, 3)):
        loop(6, collect)
    (source,) = kineto.find(tmp_path / "p")
    timeline = kineto.read(source)
    assert [step.number for step in timeline.steps] == [2, 3, 4]
    pauses = timeline.events.where(timeline.of(Kind.COLLECTOR))
    step = timeline.steps[2]  # the call at the end of a loop's pass belongs to the step that has begun
    assert any(step.start_ns <= begin < step.end_ns for begin in pauses.start_ns)
