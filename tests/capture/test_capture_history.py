from __future__ import annotations

import copy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.capture.history.batch import Batch
from jumar.recording import Recording
from jumar.recording.history.model import HistoryStep
from jumar.recording.history.reader import History

Numbers = dict[tuple[str, str, str, str], tuple[float, ...]]


def history_of(recording: Recording) -> History:
    history = recording.history()
    assert history is not None
    assert history.warning == ""
    return history


def numbers(step: HistoryStep) -> Numbers:
    rows = zip(step.places, step.values.tolist(), strict=True)
    return {(place.role, place.owner, place.name, place.slot): tuple(row) for place, row in rows}


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def fit(num_steps: int, model: nn.Module, *optimizers: torch.optim.Optimizer, seed: int = 1) -> list[float]:
    torch.manual_seed(seed)
    losses = []
    for _ in range(num_steps):
        for optimizer in reversed(optimizers):
            optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
        for optimizer in reversed(optimizers):
            optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("options", [{}, {"steps": (0, 2)}, {"steps": (3, 4)}, {"steps": (90, 91)}, {"values": "none"}])
def test_every_step_has_its_numbers_recorded_in_detail_or_not(recorded: Any, options: dict[str, Any]) -> None:
    losses: list[float] = []

    def run() -> None:
        model = small()
        losses.extend(fit(6, model, torch.optim.AdamW(model.parameters(), lr=1e-2)))

    recording = recorded(run, **options)
    history = history_of(recording)
    assert history.steps == list(range(6))
    assert [step.losses for step in history] == [[pytest.approx(loss, rel=1e-6)] for loss in losses]
    found = numbers(history.read(4))
    for name in ("0.weight", "1.bias", "2.weight"):
        assert {("gradient", "AdamW", name, ""), ("parameter", "", name, "")} <= set(found)
        assert {("state", "AdamW", name, slot) for slot in ("exp_avg", "exp_avg_sq")} <= set(found)
    assert ("buffer", "", "1.running_var", "") in found
    assert ("input", "", "0.input.0", "") in found


def test_the_numbers_are_norm_and_elements(recorded: Any) -> None:
    model = small()
    recording = recorded(lambda: fit(3, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)))
    norm, *samples = numbers(history_of(recording).read(2))["parameter", "", "0.weight", ""]
    weight = model[0].weight.detach().flatten()
    assert norm == pytest.approx(weight.norm().item(), rel=1e-6)
    assert samples == weight[4::8].tolist()


def test_settings_of_every_optimizer_and_group_are_those_of_the_step(recorded: Any) -> None:
    def run() -> None:
        model = small()
        groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.5}]
        first = torch.optim.SGD(groups, lr=1.0)
        second = torch.optim.SGD(model[2].parameters(), lr=0.25)
        schedule = torch.optim.lr_scheduler.StepLR(first, 2, gamma=0.1)
        for _ in range(4):
            fit(1, model, second, first)
            schedule.step()

    history = history_of(recorded(run, steps=(0, 1)))
    assert [step.settings["SGD"]["lr"][0] for step in history] == pytest.approx([1.0, 1.0, 0.1, 0.1])
    assert [step.settings["SGD"]["lr"][1] for step in history] == pytest.approx([0.5, 0.5, 0.05, 0.05])
    assert [step.settings["SGD#2"]["lr"] for step in list(history)[1:]] == [[0.25]] * 3
    assert history.read(3).settings["SGD"]["momentum"] == [0, 0]


def test_an_averaged_copy_that_is_never_called_is_followed(recorded: Any) -> None:
    def run() -> None:
        model = small()
        average = copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            fit(1, model, optimizer)
            for mine, its in zip(average.parameters(), model.parameters(), strict=True):
                mine.data.mul_(0.5).add_(its.data, alpha=0.5)

    first, _, last = (numbers(step) for step in history_of(recorded(run)))
    # models that other tests left in the process are noted, too: they do not change
    copies = [key for key in first if key[0] == "copy" and key[1].startswith("Sequential") and key[2] == "2.weight"]
    assert [first[key] != last[key] for key in copies].count(True) == 1


def test_the_norm_and_the_limit_of_a_clipping_are_kept(recorded: Any) -> None:
    def run() -> None:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            model(torch.ones(5, 4)).square().mean().mul(1e3).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5 if step < 2 else 0.25)
            optimizer.step()

    history = history_of(recorded(run))
    assert [step.settings["clip_grad_norm_"]["limit"] for step in history] == [[0.5], [0.5], [0.25]]
    assert numbers(history.read(1))["clipped", "", "0", ""][0] > 0.5


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")  # PyTorch 2.8's own LBFGS
def test_a_closure_gives_the_gradients_that_the_optimizer_read(recorded: Any) -> None:
    def run() -> None:
        model = small()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(torch.ones(5, 4)).square().mean()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)

    history = history_of(recorded(run))
    assert ("gradient", "LBFGS", "0.weight", "") in numbers(history.read(1))


def test_a_run_with_a_history_has_the_same_bits(recorded: Any, training: Callable[..., list[float]]) -> None:
    expected = training(5)
    found: list[float] = []
    recorded(lambda: found.extend(training(5)), steps=(90, 91))
    assert found == expected


def test_a_history_that_fails_does_not_end_the_run_and_says_so(
    recorded: Any, training: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(Batch, "reduce", broken)
    recording = recorded(lambda: training(2))
    assert recording.steps() == [0, 1]
    assert any("history" in sentence and "no room" in sentence for sentence in recording.ends[0].not_covered)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int64, torch.bool]
)
def test_numbers_of_any_dtype_and_order_of_memory(dtype: torch.dtype) -> None:
    tensor = (torch.arange(24) % 3).to(dtype).reshape(2, 3, 4).transpose(0, 2)
    batch = Batch()
    batch.add("buffer", "", "turned", "", tensor)
    batch.add("buffer", "", "expanded", "", tensor[:1, :1, :1].expand(5, 5, 5))
    batch.add("buffer", "", "empty", "", tensor[:0])
    places, values = batch.read()
    assert sorted(place.name for place in places) == ["expanded", "turned"]
    row = next(i for i, place in enumerate(places) if place.name == "turned")
    assert values[row][0] == pytest.approx(tensor.to(torch.complex128).abs().square().sum().sqrt().item(), rel=1e-3)
    assert places[row].order == "1x4x12"


def test_a_place_that_is_noted_twice_has_its_last_numbers() -> None:
    batch = Batch()
    for value in (1.0, 2.0):
        batch.add("gradient", "SGD", "a", "", torch.full((3,), value))
        batch.reduce()
    places, values = batch.read()
    assert len(places) == 1
    assert values[0].tolist() == pytest.approx([np.sqrt(12), 2, 2, 2])


KILLED = """
import os, signal, torch
from torch import nn
import jumar

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with jumar.record({path!r}, steps=(0, 2)):
    for step in range(100):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        if step == 60:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_killed_run_keeps_every_finished_step(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    done = subprocess.run([sys.executable, "-c", KILLED.format(path=str(path))], check=False)
    assert done.returncode == -signal.SIGKILL
    history = Recording.open(path).history()
    assert history is not None
    assert (history.steps, history.warning) == (list(range(61)), "")


def test_a_second_recording_in_the_folder_begins_a_new_history(tmp_path: Path) -> None:
    for num_steps in (4, 2):
        with record(tmp_path / "r", force=True):
            model = small()
            fit(num_steps, model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert history_of(Recording.open(tmp_path / "r")).steps == [0, 1]
