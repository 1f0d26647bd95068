from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from jumar.capture.session.session import Session
from jumar.recording import Recording
from jumar.recording.sketch import sketch_of


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


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def step_of(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.sum().backward()
    optimizer.step()


def counts(recording: Recording, kind: str) -> list[int]:
    return [sum(row.kind == kind for row in recording.rows(step)) for step in recording.steps()]


@pytest.mark.parametrize("generator_first", [False, True])
def test_a_round_of_several_optimizers_is_one_step(recorded, generator_first) -> None:
    generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
    for_d, for_g = sgd(discriminator), sgd(generator)
    parts = [
        lambda: step_of(for_d, discriminator(generator(torch.ones(1, 2)).detach())),
        lambda: step_of(for_g, discriminator(generator(torch.ones(1, 2)))),
    ]

    def run() -> None:
        for _ in range(3):
            for part in reversed(parts) if generator_first else parts:
                part()

    recording = recorded(run)
    assert recording.steps() == [0, 1, 2]
    assert counts(recording, "optimizer") == counts(recording, "loss") == [2, 2, 2]
    parameters = [[row.key for row in recording.rows(step) if row.kind == "parameter"] for step in (0, 2)]
    assert len(parameters[0]) == 4
    assert sorted(parameters[0]) == sorted(parameters[1])


def test_an_optimizer_that_steps_now_and_then_belongs_to_the_step_of_its_time(recorded) -> None:
    generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
    for_d, for_g = sgd(discriminator), sgd(generator)

    def run() -> None:
        for number in range(4):
            step_of(for_d, discriminator(generator(torch.ones(1, 2)).detach()))
            if number == 2:
                step_of(for_g, discriminator(generator(torch.ones(1, 2))))

    recording = recorded(run)
    assert recording.steps() == [0, 1, 2, 3]
    assert counts(recording, "optimizer") == [1, 1, 1, 2]


def test_an_optimizer_that_never_steps_is_not_waited_for(recorded) -> None:
    backbone, head = nn.Linear(2, 2), nn.Linear(2, 1)
    frozen, updates = sgd(backbone), sgd(head)

    def run() -> None:
        for _ in range(3):
            step_of(updates, head(backbone(torch.ones(1, 2)).detach()))

    assert counts(recorded(run), "optimizer") == [1, 1, 1]
    assert frozen.param_groups


def test_calls_of_a_model_before_the_optimizer_are_no_steps(recorded) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(1))

    def run() -> None:
        for _ in range(5):
            model(torch.ones(3, 2))
        updates = sgd(model)
        for _ in range(3):
            step_of(updates, model(torch.ones(1, 2)))

    recording = recorded(run, steps=(0, 2))
    assert recording.steps() == [0, 1]
    assert counts(recording, "loss") == counts(recording, "optimizer") == [1, 1]
    assert {tensor.shape[0] for row in recording.rows(0) if row.kind == "module" for tensor in row.outputs} == {1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for _ in range(4): model(x)\nupdates = torch.optim.SGD(model.parameters(), 0.1)\n", 2),
        ("", 0),
    ],
)
def test_a_script_that_may_train_yet_is_not_ended_by_calls_before_its_optimizer(tmp_path, body, expected) -> None:
    from jumar.capture.plans.plan import RecordPlan
    from jumar.capture.process.script import run_script

    script = tmp_path / "train.py"
    script.write_text(
        f"import torch\nmodel, x = torch.nn.Linear(2, 1), torch.ones(1, 2)\n{body}"
        "for _ in range(9):\n    loss = model(x).sum()\n"
        + ("    loss.backward()\n    updates.step()\n" if body else "")
    )
    plan = RecordPlan(out=str(tmp_path / "r"), steps=(0, 2))
    assert run_script(script, [], plan=plan, stop_after=2).status == "stopped"
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0, 1]
    assert len(recording.losses()) == expected


def test_accumulation_closures_and_evaluation_make_no_further_steps(recorded) -> None:
    model = nn.Linear(2, 1)
    updates = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        updates.zero_grad()
        for _ in range(2):
            loss = model(torch.ones(1, 2)).square().sum()
            loss.backward()
        return loss

    def run() -> None:
        for _ in range(3):
            updates.step(closure)
            with torch.no_grad():
                for _ in range(4):
                    model(torch.ones(1, 2))

    assert counts(recorded(run), "optimizer") == [1, 1, 1]


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


def test_calls_before_the_optimizer_lend_no_sketch_to_the_first_step(recorded) -> None:
    """Numbers of storages begin anew with the steps, and so do the sketches that are known of them."""
    model = nn.Linear(60, 60)
    values = torch.randn(9, 60, 60, generator=torch.Generator().manual_seed(0))

    def run(times: int) -> None:
        for number in range(times):
            model(values[1 + number].clone())
        step_of(sgd(model), model(values[0].clone()))

    first, second = (recorded(partial(run, times)).rows(0) for times in (2, 3))
    assert [[t.sketch for t in (*row.inputs, *row.outputs)] for row in first if row.name == "aten::clone"] == [
        [t.sketch for t in (*row.inputs, *row.outputs)] for row in second if row.name == "aten::clone"
    ]
    clone = next(row for row in second if row.name == "aten::clone")
    assert clone.outputs[0].sketch == sketch_of(values[0].numpy())
