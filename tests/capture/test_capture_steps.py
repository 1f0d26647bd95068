from __future__ import annotations

import pytest
import torch
from torch import nn

from jumar.capture.session.session import Session
from jumar.recording import Recording


def test_a_step_ends_with_the_optimizer_and_the_rest_is_the_next_steps(training, recorded) -> None:
    recording = recorded(lambda: training(3))
    assert recording.steps() == [0, 1, 2]
    assert recording.rows(1)[-1].phase == "optimizer"


@pytest.mark.parametrize(("steps", "expected"), [((0, 1), [0]), ((1, 3), [1, 2]), ((2, 9), [2, 3])])
def test_only_the_steps_asked_for_are_recorded(training, recorded, steps, expected) -> None:
    assert recorded(lambda: training(4), steps=steps).steps() == expected


def test_a_step_that_grad_scaler_skips_is_a_step(recorded) -> None:
    model = nn.Linear(2, 1)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def run() -> None:
        for value in (1.0, float("inf"), 1.0):
            loss = model(torch.full((1, 2), value)).sum()
            scaler.scale(loss).backward()
            scaler.step(updates)
            scaler.update()

    recording = recorded(run)
    assert recording.steps() == [0, 1, 2]
    assert "aten::_foreach_add_.List" not in {row.name for row in recording.rows(1)}


def test_losses_are_recorded_without_their_scale(recorded) -> None:
    model = nn.Linear(2, 1)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []

    def run() -> None:
        for _ in range(2):
            loss = model(torch.ones(1, 2)).sum()
            scaler.scale(loss / 2).backward()
            scaler.step(updates)
            scaler.update()
            losses.append(loss.item() / 2)

    assert recorded(run).losses() == list(enumerate(losses))


def test_unscaling_and_updating_are_the_optimizers_phase(recorded) -> None:
    model = nn.Linear(2, 1)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def run() -> None:
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.unscale_(updates)
        scaler.step(updates)

    rows = recorded(run).rows(0)
    assert {row.phase for row in rows if "non_finite_check" in row.name} == {"optimizer"}


def test_the_first_optimizer_to_step_leads_when_there_are_two(recorded) -> None:
    generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
    for_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    for_g = torch.optim.SGD(generator.parameters(), lr=0.1)

    def run() -> None:
        for _ in range(3):
            discriminator(generator(torch.ones(1, 2)).detach()).sum().backward()
            for_d.step()
            discriminator(generator(torch.ones(1, 2))).sum().backward()
            for_g.step()

    assert recorded(run).steps() == [0, 1, 2]


def test_without_an_optimizer_a_step_is_a_call_of_the_model(recorded) -> None:
    model = nn.Linear(2, 2)

    def run() -> None:
        for _ in range(3):
            with torch.no_grad():
                model(torch.ones(1, 2)).argmax()

    recording = recorded(run)
    assert recording.steps() == [0, 1, 2]
    assert [row.name for row in recording.rows(1) if row.kind == "op"][-1] in {"aten::argmax", "aten::ones"}


def test_a_program_without_a_step_is_one_step(recorded) -> None:
    recording = recorded(lambda: torch.ones(2).exp())
    assert [row.name for row in recording.rows(0)] == ["aten::ones", "aten::exp"]


def test_hooks_and_wrappers_are_gone_after_a_recording(training, recorded) -> None:
    from torch.nn.modules import module as hooks
    from torch.optim import optimizer as optimizers

    before = (torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.__init__)
    recorded(training)
    assert (torch.autograd.backward, torch.amp.GradScaler.step, torch.optim.Optimizer.__init__) == before
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert not optimizers._global_optimizer_pre_hooks
    assert torch._C._len_torch_dispatch_stack() == 0


def test_stop_after_ends_the_run_in_a_way_that_except_exception_does_not_catch(training) -> None:
    from jumar.capture.observe.observer import StopRun

    session = Session(None, stop_after=2)
    session.start()
    seen = []

    def run() -> None:
        try:
            training(5)
        except Exception:  # noqa: BLE001 - a script that swallows what it can
            seen.append("swallowed")
        finally:
            seen.append("finally")

    with pytest.raises(StopRun):
        run()
    assert (session.end("stopped").num_steps, seen) == (2, ["finally"])


def test_what_a_block_raises_is_passed_on_after_the_finished_steps_are_written(tmp_path, training) -> None:
    from jumar.capture import record

    def fail() -> None:
        training(2)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), record(tmp_path / "r"):
        fail()
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0, 1]
    assert (recording.ends[0].status, "ValueError: boom" in recording.ends[0].error) == ("raised", True)
    assert "src/jumar" not in recording.ends[0].error


def test_two_recordings_at_once_are_refused(tmp_path) -> None:
    from jumar.base.errors import UsageError
    from jumar.capture import record

    with record(tmp_path / "a"), pytest.raises(UsageError, match="under way"), record(tmp_path / "b"):
        pass


def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path, training, monkeypatch) -> None:
    import errno
    import os

    import pyarrow.parquet as pq

    from jumar.capture import record

    expected = training(4)
    write_table = pq.write_table

    def fill_up(table, where, **options) -> None:
        if "step-000002" in str(where):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_table(table, where, **options)

    monkeypatch.setattr(pq, "write_table", fill_up)
    with record(tmp_path / "r"):
        losses = training(4)
    recording = Recording.open(tmp_path / "r")
    assert (losses, recording.steps()) == (expected, [0, 1])
    assert recording.ends[0].not_covered[0].startswith("steps from 2 on are not recorded: No space left on device")
    assert (recording.ends[0].status, recording.ends[0].num_steps) == ("finished", 4)
