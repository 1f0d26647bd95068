"""Trainings calculated in NumPy, of which one has a fault from a step on: what their histories say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jumar.comparison.drift.find import find_drift
from jumar.comparison.model.drift import Drift
from jumar.recording.history.model import NUM_SAMPLES, HistoryStep, Place, Role
from jumar.recording.history.reader import History
from jumar.recording.history.writer import HistoryWriter

Array = np.ndarray[Any, Any]
SHAPES = {"first": (12, 8), "second": (8, 6), "bias": (6,), "third": (6, 4)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a run differs from step `at` on."""

    at: int = 17
    rule: str = "adam"
    lr: float = 1.0
    hidden_rate: float = 1.0
    decay: float = 0.0
    beta2: float | None = None
    hidden_beta2: float | None = None
    state_times: float = 1.0
    average: float = 0.98
    clip: float = 1.0
    order: int = 0
    seed: int = 0
    dropped: bool = False
    noise: float = 0.0
    chaos: float = 0.0
    name: str = "Adam"
    num_steps: int = 24


def numbers(array: Array) -> list[float]:
    flat = array.astype(np.float32).ravel()
    step = len(flat) // NUM_SAMPLES
    return [float(np.linalg.norm(flat)), *(float(flat[step // 2 + step * i]) for i in range(NUM_SAMPLES))]


def train(run: Run) -> Iterator[HistoryStep]:
    draw = np.random.default_rng(0)
    rounding = np.random.default_rng(5)
    parameters = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    average = {name: value.copy() for name, value in parameters.items()}
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    data = draw.standard_normal((80, 5)).astype(np.float32)
    for step in range(run.num_steps):
        now = step >= run.at
        changed = run if now else Run(rule=run.rule, noise=run.noise, chaos=run.chaos)
        places: list[Place] = []
        rows: list[list[float]] = []

        def note(role: Role, owner: str, name: str, slot: str, value: Array) -> None:
            places.append(Place(role, owner, name, slot, value.shape))  # noqa: B023 - called in this step only
            rows.append(numbers(value))  # noqa: B023

        batch = data[step + changed.order] + (changed.seed and 0.5)
        note("input", "", "0.input.0", "", batch)
        lr = np.float32(0.01 * changed.lr / (1 + step / 10))
        beta2 = np.float32(changed.hidden_beta2 or changed.beta2 or 0.999)
        gradients = {}
        for number, (name, value) in enumerate(parameters.items()):
            target = np.sin(np.arange(value.size) + number + batch.sum()).reshape(value.shape)
            gradient = (value - target).astype(np.float32)
            gradient *= 1 + run.noise * rounding.standard_normal(value.shape).astype(np.float32)
            gradient += np.float32(run.chaos * 2.0**step) * rounding.standard_normal(value.shape).astype(np.float32)
            if changed.dropped and name == "second":
                gradient[:4] = 0
            gradients[name] = (gradient * np.float32(changed.clip)).astype(np.float32)
        note("loss", "", "0", "", np.array(sum(float(np.square(one).mean()) for one in gradients.values())))
        for name, gradient in gradients.items():
            note("gradient", run.name, name, "", gradient)
            if step == run.at:
                second[name] *= np.float32(run.state_times)
            first[name] = (np.float32(0.9) * first[name] + np.float32(0.1) * gradient).astype(np.float32)
            second[name] = (beta2 * second[name] + (1 - beta2) * np.square(gradient)).astype(np.float32)
            if run.rule == "adam":
                corrected = np.sqrt(second[name] / np.float32(1 - 0.999 ** (step + 1))) + np.float32(1e-8)
                move = first[name] / np.float32(1 - 0.9 ** (step + 1)) / corrected
            else:
                move = first[name]
            value = parameters[name]
            value -= lr * np.float32(changed.hidden_rate) * (move + np.float32(changed.decay) * value)
            note("state", run.name, name, "exp_avg", first[name])
            note("state", run.name, name, "exp_avg_sq", second[name])
            note("parameter", "", name, "", value)
        for name, value in average.items():
            note("copy", "Net", name, "", value)
        for name, value in average.items():  # updated after the step, as scripts do
            np.add(value, np.float32(1 - changed.average) * (parameters[name] - value), out=value)
        settings = {
            run.name: {
                "lr": [float(lr)],
                "betas": [[0.9, changed.beta2 or 0.999]],
                "weight_decay": [changed.decay],
                "foreach": [None],
            }
        }
        rng = {"cpu": f"{step}-{run.seed if step > run.at else 0}", "python": "untouched"}
        values = np.array(rows, np.float32)
        yield HistoryStep(
            step=step, places=tuple(places), values=values, settings=settings, calls={run.name: 1}, rng=rng
        )


@pytest.fixture
def drift(tmp_path: Path) -> Callable[..., Drift]:
    def write(run: Run, name: str) -> History:
        folder = tmp_path / name
        folder.mkdir()
        writer = HistoryWriter(folder, 0)
        for step in train(run):
            writer.write(step)
        writer.close()
        history = History.open(folder)
        assert history is not None
        return history

    def find(target: Run, reference: Run | None = None, **options: Any) -> Drift:
        reference = reference or Run(rule=target.rule)
        return find_drift(write(reference, "reference"), write(target, "target"), **options)

    return find


FAULTS = {
    "learning rate": (Run(lr=1.002), "setting", "lr"),
    "beta2": (Run(beta2=0.99), "setting", "betas"),
    "weight decay": (Run(decay=0.1), "setting", "weight_decay"),
    "hidden beta2": (Run(hidden_beta2=0.9985), "state", "exp_avg_sq"),
    "hidden rate": (Run(hidden_rate=1.002), "parameter", "1.002 times"),
    "scaled state": (Run(state_times=1.5), "state", "multiplied by 1.5"),
    "average": (Run(average=0.97), "copy", "0.03"),
    "clipped": (Run(clip=0.5), "gradient", "0.5 times"),
    "one gradient": (Run(dropped=True), "gradient", "second"),
    "data order": (Run(order=1), "input", "in step 18"),
    "seed": (Run(seed=7), "input", "generator cpu"),
}


@pytest.mark.parametrize("noise", [0.0, 1e-6], ids=["equal", "rounded"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_step_and_what_changed_there_are_named(drift: Callable[..., Drift], fault: str, noise: float) -> None:
    run, change, word = FAULTS[fault]
    found = drift(replace(run, noise=noise)).onset
    assert found is not None
    assert (found.step, found.change) == (17, change)
    assert word in f"{found.what} {found.sentence}"


@pytest.mark.parametrize("at", [5, 11, 20])
@pytest.mark.parametrize("fault", ["learning rate", "scaled state", "average", "data order"])
def test_the_step_is_found_wherever_it_is(drift: Callable[..., Drift], fault: str, at: int) -> None:
    run, change, _ = FAULTS[fault]
    found = drift(replace(run, at=at)).onset
    assert found is not None
    assert (found.step, found.change) == (at, change)


@pytest.mark.parametrize("rule", ["adam", "momentum"])
@pytest.mark.parametrize(
    "target", [Run(), Run(noise=1e-7), Run(noise=1e-5), Run(noise=1e-3), Run(chaos=1e-9), Run(chaos=1e-7)]
)
def test_rounding_is_not_taken_for_a_change(drift: Callable[..., Drift], target: Run, rule: str) -> None:
    found = drift(replace(target, at=99, rule=rule))
    assert found.onset is None
    assert found.num_steps == (24, 24)
    assert len(found.points) == 24


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_a_hidden_decay_from_the_first_step_on_is_found(drift: Callable[..., Drift], noise: float) -> None:
    found = drift(Run(at=0, average=0.9, noise=noise)).onset
    assert found is not None
    assert (found.step, found.change) == (0, "copy")


def test_optimizers_of_other_classes_are_paired(drift: Callable[..., Drift]) -> None:
    assert drift(Run(at=99, name="NpuFusedAdam", noise=1e-7)).onset is None


def test_optimizers_of_other_classes_with_other_settings_are_told_apart(drift: Callable[..., Drift]) -> None:
    found = drift(Run(lr=1.5, name="NpuFusedAdam")).onset
    assert found is not None
    assert (found.step, found.change) == (17, "setting")


def test_only_steps_that_both_have_are_compared(drift: Callable[..., Drift]) -> None:
    found = drift(Run(at=99, num_steps=12))
    assert (len(found.points), found.num_steps) == (12, (24, 12))


def test_only_the_steps_asked_for_are_looked_at(drift: Callable[..., Drift]) -> None:
    found = drift(Run(lr=1.5), steps=(0, 10))
    assert found.onset is None
    assert [point.step for point in found.points] == list(range(10))
