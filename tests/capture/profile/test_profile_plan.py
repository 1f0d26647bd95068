"""What a profile is to hold, its folder, and `profile.json`."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.capture.profile import folder
from jumar.capture.profile.plan import ENVIRONMENT, ProfilePlan, schedule_of


def test_a_plan_travels_through_the_environment() -> None:
    plan = ProfilePlan(out="x", skip=2, ranks=(0, 3), time_limit_s=1.5, command=("a.py", "b"))
    assert ProfilePlan.from_environment(plan.to_environment()) == plan
    assert ProfilePlan.from_environment({}) is None
    with pytest.raises(UsageError, match="must hold a plan"):
        ProfilePlan.from_environment({ENVIRONMENT: "[]"})


def test_each_step_has_a_phase() -> None:
    plan = ProfilePlan(out="x", skip=2, warm_up=1, active=2)
    assert [plan.phase(step) for step in range(6)] == ["skip", "skip", "warm-up", "active", "active", "after"]
    assert (plan.first, plan.end) == (3, 5)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((None,), (5, 1, 5)),
        (((4, 9),), (3, 1, 5)),
        (((0, 2),), (0, 0, 2)),
        (((1, 2), None, 3), (0, 1, 1)),
        ((None, 0, 0, 7), (0, 0, 7)),
    ],
)
def test_traced_steps_and_numbers_say_the_same(given: tuple, found: tuple[int, int, int]) -> None:
    assert schedule_of(*given) == found


def test_steps_beside_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="Give one of the two"):
        schedule_of((1, 2), skip=3)
    with pytest.raises(UsageError, match="got 3:3"):
        schedule_of((3, 3))
    with pytest.raises(UsageError, match="1 active step or more"):
        ProfilePlan(out="x", active=0)


def test_a_folder_that_is_there_is_replaced_only_by_force_and_only_if_it_is_a_profile(tmp_path: Path) -> None:
    place = tmp_path / "p"
    folder.create(ProfilePlan(out=str(place)), {})
    with pytest.raises(OutputError, match="pass --force"):
        folder.create(ProfilePlan(out=str(place)), {})
    (place / "old").touch()
    folder.create(ProfilePlan(out=str(place), force=True), {})
    assert [path.name for path in place.iterdir()] == ["profile.json"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(OutputError, match="is no profile"):
        folder.create(ProfilePlan(out=str(tmp_path / "other"), force=True), {})
    with pytest.raises(OutputError, match="cannot be written"):
        folder.create(ProfilePlan(out=str(tmp_path / "other" / "file" / "p")), {})


def test_a_rank_that_says_nothing_at_the_end_was_killed(tmp_path: Path) -> None:
    folder.create(ProfilePlan(out=str(tmp_path / "p")), {"device": "cpu"})
    assert folder.claim(tmp_path / "p", 1) == os.getpid()
    folder.update(tmp_path / "p", 0, {"status": "finished"}, world_size=2)
    assert folder.read(tmp_path / "p")["status"] == "running"
    found = folder.settle(tmp_path / "p", "finished")
    assert (found["status"], found["world_size"]) == ("killed", 2)
    assert {rank: facts["status"] for rank, facts in found["ranks"].items()} == {"0": "finished", "1": "killed"}


def test_a_run_without_a_rank_has_the_status_of_its_process(tmp_path: Path) -> None:
    folder.create(ProfilePlan(out=str(tmp_path / "p")), {})
    assert folder.settle(tmp_path / "p", "exited")["status"] == "exited"


def test_other_ranks_join_the_folder_of_their_own_launch(tmp_path: Path) -> None:
    environment = {"MASTER_ADDR": "a", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "x"}
    own = folder.launch_of(environment)
    assert own != folder.launch_of({**environment, "MASTER_PORT": "2"})
    folder.create(ProfilePlan(out=str(tmp_path / "p")), {"launch": own})
    folder.wait_for(tmp_path / "p", own, 1)
    with pytest.raises(OutputError, match="rank 0 made no profile"):
        folder.wait_for(tmp_path / "p", "another", 0.1)


def test_another_file_is_not_taken_for_a_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no profile"):
        folder.read(tmp_path)
    (tmp_path / "profile.json").write_text(json.dumps([1]))
    with pytest.raises(InputError, match="is not Jumar's"):
        folder.read(tmp_path)


def _note(place: Path, rank: int) -> None:
    for number in range(20):
        folder.update(place, rank, {"status": "running", "number": number})


@pytest.mark.slow
def test_ranks_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    folder.create(ProfilePlan(out=str(tmp_path / "p")), {})
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_note, args=(tmp_path / "p", rank)) for rank in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {facts["number"] for facts in folder.read(tmp_path / "p")["ranks"].values()} == {19}
    assert len(folder.read(tmp_path / "p")["ranks"]) == 4
