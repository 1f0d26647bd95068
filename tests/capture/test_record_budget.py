from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import UsageError
from jumar.capture import record
from jumar.capture.plans.budget import RESERVED_BYTES, Budget, Stage, parse_budget
from jumar.capture.probes import StatsProbe
from jumar.recording import Recording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (None, None)),
        ("200MB,20%", (200_000_000, 0.2)),
        ("5%", (None, 0.05)),
        ("1.5 GiB", (1_610_612_736, None)),
        ("150%, 64MiB", (67_108_864, 1.5)),
        ("50k", (50_000, None)),
    ],
)
def test_a_budget_is_a_size_a_slowdown_or_both(text: str | None, expected: tuple[int | None, float | None]) -> None:
    assert parse_budget(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "leaves no room"),
        ("0MB,20%", "leaves no room"),
        ("0%", "leaves no time"),
        ("20%,30%", "names the slowdown twice"),
        ("1GB,2GB", "names the size twice"),
        ("much", "must be a size"),
        ("", "must be a size"),
        ("-5MB", "must be a size"),
        ("20MB,", "must be a size"),
    ],
)
def test_a_budget_without_sense_is_refused_with_a_better_one(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"{said}.*Try --budget 200MB,20%"):
        parse_budget(text)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.integers(40_000, 10**12), st.integers(1, 10_000))
def test_what_a_budget_says_is_what_it_means(size: int, percent: int) -> None:
    assert parse_budget(f"{size},{percent}%") == (size, percent / 100)


def test_steps_that_are_known_share_what_is_left_evenly() -> None:
    budget = Budget(RESERVED_BYTES + 900, None, num_steps=3)
    assert budget.allowance == 300
    budget.spend(100)
    budget.end_step(0, 0.0, 1.0, was_recorded=True)
    assert budget.allowance == 400


def test_a_slow_observer_leaves_out_more_from_step_to_step_and_then_pauses() -> None:
    budget = Budget(None, 0.1, num_steps=None, has=frozenset({Stage.SKETCHES, Stage.VIEWS}))
    stages = []
    for step in range(4):
        stages.append((budget.stage, budget.records(step)))
        budget.end_step(step, 1.0, 1.0, was_recorded=True)
    assert stages == [
        (Stage.NOTHING, True),
        (Stage.NOTHING, True),  # the first step alone is no reason
        (Stage.SKETCHES, True),
        (Stage.VIEWS, True),
    ]
    assert not budget.records(4)
    num_paused = 0
    while not budget.records(4 + num_paused):
        budget.end_step(4 + num_paused, 0.0, 1.0, was_recorded=False)
        num_paused += 1
    assert budget.slowdown is not None
    assert budget.slowdown <= 0.1
    assert any("whole steps from step 4 on" in sentence for sentence in budget.sentences())


def test_a_fast_observer_leaves_out_nothing() -> None:
    budget = Budget(None, 0.2, num_steps=None)
    for step in range(10):
        budget.end_step(step, 0.19, 1.0, was_recorded=True)
    assert (budget.stage, budget.sentences()) == (Stage.NOTHING, [])


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize("steps", [(0, 4), None])
@pytest.mark.parametrize("size", [45_000, 150_000, 400_000])
def test_a_recording_of_whole_tensors_stays_within_its_size_and_says_what_it_lacks(
    training, tmp_path: Path, size: int, steps: tuple[int, int] | None
) -> None:
    expected = training(4)
    with record(tmp_path / "all", values="tensors", steps=(0, 4)):
        training(4)
    assert _size(tmp_path / "all") > 400_000
    with record(tmp_path / "r", values="tensors", steps=steps, budget=str(size)):
        losses = training(4)
    recording = Recording.open(tmp_path / "r")
    assert losses == expected
    assert _size(tmp_path / "r") <= size
    said = [recording.step_info(step).not_kept for step in recording.steps()]
    assert recording.ends[0].not_covered
    assert all(said)


def test_what_is_left_out_is_left_out_in_the_documented_order(training, tmp_path: Path) -> None:
    found: list[tuple[bool, ...]] = []
    for size in (60_000, 120_000, 2_000_000):
        path = tmp_path / str(size)
        with record(path, values="tensors", steps=(0, 2), budget=str(size)):
            training(2)
        recording = Recording.open(path)
        rows = recording.rows(1) if 1 in recording.steps() else []
        found.append(
            (
                recording.has_tensors(),
                any(row.name == "aten::t" for row in rows),
                any(row.kind == "op" for row in rows),
                any(row.kind == "module" for row in rows),
            )
        )
    assert found == sorted(found), "a smaller budget keeps something that a larger one does not"
    assert found[-1] == (True, True, True, True)


def test_a_slowdown_that_cannot_be_kept_ends_with_fewer_steps_and_says_so(
    training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = StatsProbe.on_tensor

    def slow(probe: StatsProbe, *args: object) -> None:
        time.sleep(0.002)
        original(probe, *args)

    monkeypatch.setattr(StatsProbe, "on_tensor", slow)
    with record(tmp_path / "r", budget="1%"):
        losses = training(8)
    recording = Recording.open(tmp_path / "r")
    assert losses == training(8)
    assert len(recording.steps()) < 8
    assert any("whole steps" in sentence for sentence in recording.ends[0].not_covered)
    assert any("recording slowed the run by" in sentence for sentence in recording.ends[0].not_covered)


def test_rows_that_were_asked_for_keep_their_tensors_before_others(training, tmp_path: Path) -> None:
    pattern = "op/forward/fc/aten::addmm/*"
    with record(tmp_path / "r", values="tensors", steps=(0, 2), budget="200kB", tensors_of=pattern):
        training(2)
    recording = Recording.open(tmp_path / "r")
    (row,) = [row for row in recording.rows(0) if row.name == "aten::addmm"]
    assert set(recording.tensors(row)) == {"input.0", "input.1", "input.2", "output.0"}
    assert recording.step_info(0).not_kept


def test_each_rank_has_its_share_of_the_size() -> None:
    budget = Budget(RESERVED_BYTES * 4, None, num_steps=1)
    budget.share(2)
    assert budget.allowance == RESERVED_BYTES


def test_a_budget_that_is_large_enough_leaves_out_nothing(training, tmp_path: Path) -> None:
    with record(tmp_path / "r", values="tensors", steps=(0, 2), budget="50MB,100000%"):
        training(2)
    recording = Recording.open(tmp_path / "r")
    assert [recording.step_info(step).not_kept for step in recording.steps()] == [(), ()]
    assert recording.ends[0].not_covered == ()
    assert torch.is_grad_enabled()


def _detailed(slowdown: float, own_s: float, num_steps: int) -> set[int]:
    """Return the steps that a run records in detail whose observer takes `own_s` for each step of a second."""
    budget = Budget(None, slowdown, num_steps=None)
    found = set()
    for step in range(num_steps):
        is_recorded = budget.records(step)
        found |= {step} if is_recorded else set()
        budget.end_step(step, own_s if is_recorded else 0.0, 1.0, was_recorded=is_recorded)
    return found


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.floats(0.01, 8), st.floats(0.01, 8), st.sampled_from([0.05, 0.2, 1.0]))
def test_runs_of_other_costs_record_the_same_steps_as_far_as_both_can(
    one: float, other: float, slowdown: float
) -> None:
    first, second = _detailed(slowdown, one, 400), _detailed(slowdown, other, 400)
    # Until both have found out what they can afford, one may have steps that the other has not.
    settled = 8 + max(max(one, other) * 8 / slowdown, 1)
    late = sorted((sum(step > settled for step in steps), steps) for steps in (first, second))
    assert {step for step in late[0][1] if step > settled} <= late[1][1]


def test_a_size_without_a_known_length_leaves_room_for_later_steps() -> None:
    budget = Budget(RESERVED_BYTES + 100_000, None, num_steps=None)
    found = []
    for step in range(2_000):
        if budget.records(step) and (budget.allowance or 0) >= 4_000:
            found.append(step)
            budget.spend(4_000)
        budget.end_step(step, 0.0, 1.0, was_recorded=step in found)
    assert found[-1] >= 120
    assert budget.used_bytes <= 75_000


def test_a_budget_keeps_the_numbers_of_every_step(training, tmp_path: Path) -> None:
    with record(tmp_path / "r", budget="60k"):
        training(40)
    recording = Recording.open(tmp_path / "r")
    history = recording.history()
    assert history is not None
    assert history.steps == list(range(40))
    assert all(step.losses for step in history)
    assert _size(tmp_path / "r") <= 60_000
