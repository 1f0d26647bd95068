"""Parameters are judged by what the noise of their gradients explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recording_builder import Run

from jumar.comparison import Comparison, compare

Array = np.ndarray
RATE = 1e-3


class Sgd:
    name, settings = "SGD", {"lr": RATE, "momentum": 0.9}

    def __init__(self) -> None:
        self.moment = np.zeros(())

    def step(self, value: Array, gradient: Array) -> Array:
        self.moment = 0.9 * self.moment + gradient
        return (value - RATE * self.moment).astype(np.float32)


class Adam:
    name, settings = "Adam", {"lr": RATE, "betas": [0.9, 0.999], "eps": 1e-8}

    def __init__(self, eps: float = 1e-8, square_root_of_bias: bool = True) -> None:
        self.first, self.second, self.num_steps = np.zeros(()), np.zeros(()), 0
        self.eps, self.square_root_of_bias = eps, square_root_of_bias

    def step(self, value: Array, gradient: Array) -> Array:
        self.num_steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first = self.first / (1 - 0.9**self.num_steps)
        second = self.second / ((1 - 0.999**self.num_steps) if self.square_root_of_bias else 1.0)
        return (value - RATE * first / (np.sqrt(second) + self.eps)).astype(np.float32)


def trained(
    optimizer: Any,
    *,
    noise: float = 0.0,
    spoil: Callable[[Array], Array] = lambda gradient: gradient,
    settings: dict[str, Any] | None = None,
    values: str = "stats",
    num_steps: int = 3,
) -> Run:
    """Return a run of a layer whose gradient is noisy, and spoiled after the operator that made it."""
    run = Run(values=values)
    random, disturbed = np.random.default_rng(1), np.random.default_rng(2)
    value = random.standard_normal((32, 16)).astype(np.float32)
    for step in range(num_steps):
        x = random.standard_normal((64, 32)).astype(np.float32)
        g = random.standard_normal((64, 16)).astype(np.float32)
        run.call("aten::mm", [x, value], [x @ value], step=step)
        made = x.T @ g
        made = (made * (1 + noise * disturbed.standard_normal(made.shape))).astype(np.float32)
        run.call("aten::mm", [x, g], [made], phase="backward", step=step)
        made[...] = spoil(made)  # in the same memory: no operator is seen to write it
        run.optimizer([settings or optimizer.settings], name=optimizer.name, step=step)
        value = optimizer.step(value, made)
        run.parameter("weight", made, value, step=step)
    return run


def named(comparison: Comparison) -> tuple[str, str, int]:
    first = comparison.first_divergence
    assert first is not None, comparison.headline
    return first.name, first.phase, first.step


@pytest.mark.parametrize("values", ["stats", "tensors"])
@pytest.mark.parametrize("optimizer", [Sgd, Adam])
@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_noise_of_gradients_explains_parameters_that_part(optimizer, noise, values) -> None:
    comparison = compare(trained(optimizer(), values=values), trained(optimizer(), noise=noise, values=values))
    assert comparison.status == "agree", comparison.headline
    assert sum(diff.kind == "parameter" for diff in comparison.operators) == 3


def test_an_optimizer_that_computes_something_else_is_named() -> None:
    comparison = compare(trained(Adam()), trained(Adam(square_root_of_bias=False)))
    assert named(comparison) == ("Adam", "optimizer", 0)
    first = comparison.first_divergence
    assert first is not None
    assert "net.weight" in first.note


def test_an_optimizer_with_another_setting_is_named_with_it_though_little_differs() -> None:
    reference = trained(Adam())
    target = trained(Adam(eps=1e-3), settings={**Adam.settings, "eps": 1e-3})
    comparison = compare(reference, target)
    assert named(comparison) == ("Adam", "optimizer", 0)
    assert comparison.first_divergence is not None
    assert [str(argument) for argument in comparison.first_divergence.arguments] == ["eps 1e-08 against 0.001"]


def test_settings_that_choose_an_implementation_are_no_difference() -> None:
    target = trained(Adam(), noise=1e-7, settings={**Adam.settings, "foreach": True, "fused": None})
    assert compare(trained(Adam()), target).status == "agree"


def test_a_gradient_that_changes_between_its_operator_and_the_optimizer_is_named() -> None:
    comparison = compare(trained(Sgd()), trained(Sgd(), spoil=lambda gradient: gradient * 2))
    assert named(comparison)[1:] == ("optimizer", 0)
    assert comparison.first_divergence is not None
    assert "gradient that the optimizer reads" in comparison.first_divergence.note


def test_a_gradient_that_is_noise_is_flagged_and_nobody_is_accused() -> None:
    """The bias before a normalisation: its gradient is a sum that cancels."""
    runs = []
    for seed in (1, 2):
        run, noise = Run(), np.random.default_rng(seed)
        values = np.random.default_rng(0)
        g = values.standard_normal((64, 16)).astype(np.float32)
        g -= g.mean(0)
        optimizer = Adam()
        run.optimizer([optimizer.settings], name="Adam")
        for name in ("scale", "shift", "weight"):
            gradient = values.standard_normal(16).astype(np.float32)
            run.call("aten::clone", [gradient], [made := gradient.copy()], phase="backward")
            run.parameter(name, made, Adam().step(np.ones(16, np.float32), made))
        total = (1e-6 * noise.standard_normal(16)).astype(np.float32)
        run.call("aten::sum.dim_IntList", [g], [total], phase="backward")
        run.parameter("bias", total, Adam().step(np.ones(16, np.float32), total))
        runs.append(run)
    comparison = compare(*runs)
    assert comparison.status == "agree", comparison.headline
    flagged = [finding for finding in comparison.findings if finding.code == "JM320"]
    assert [list(finding.evidence["parameters"]) for finding in flagged] == [["net.bias"]]
