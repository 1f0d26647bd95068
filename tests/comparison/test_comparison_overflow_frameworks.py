"""Overflow in recordings of TensorFlow: its operators are judged as PyTorch's of the same calculation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from framework_runs import Side
from recording_builder import Array

from jumar.comparison.model.frameworks.backward import lacks_operators
from jumar.comparison.overflow import OverflowReport, find_overflow


def numbers(*values: float, dtype: type = np.float32) -> Array:
    return np.array(values, dtype)


def report(folder: Path, side: Side) -> OverflowReport:
    return find_overflow(side.written(folder))


def op(
    side: Side, name: str, inputs: list[Array], made: Array, *, phase: str = "forward", **arguments: object
) -> Array:
    given = {f"input.{place}": one for place, one in enumerate(inputs)}
    side.add(f"tf::{name}", given, {"output.0": made}, kind="op", phase=phase, path="body", arguments=arguments)
    return made


def ended(side: Side, made: Array) -> Side:
    """Return the side with the last result as the loss's source."""
    loss = np.array(made.sum())
    op(side, "Sum", [made], loss)
    side.add("loss", {}, {"output.0": loss}, kind="loss")
    return side


@pytest.mark.parametrize(
    ("name", "inputs", "made", "cause"),
    [
        ("Exp", [numbers(0, 100)], numbers(1, np.inf), "exp of 100 leaves float32"),
        ("Log", [numbers(-1, 1)], numbers(np.nan, 0), "the logarithm of a negative number (-1)"),
        ("Sqrt", [numbers(-2, 1)], numbers(np.nan, 1), "sqrt of a negative number (-2)"),
        ("RealDiv", [numbers(1, 1), numbers(0, 1)], numbers(np.inf, 1), "a division by zero"),
        ("Rsqrt", [numbers(0, 1)], numbers(np.inf, 1), "rsqrt of 0"),
        ("SqrtGrad", [numbers(0, 1), numbers(1, 1)], numbers(np.inf, 0.5), "the derivative of sqrt at 0"),
        ("Square", [numbers(1e30, 1)], numbers(np.inf, 1), "inputs up to 1e+30"),
        ("MatMul", [numbers(1e30, 1), numbers(1e30, 1)], numbers(np.inf, 1), "inputs up to 1e+30"),
    ],
)  # fmt: skip
def test_the_cause_is_told_of_operators_of_tensorflow(tmp_path: Path, name, inputs, made, cause) -> None:
    side = Side("tensorflow")
    op(side, name, inputs, made)
    found = report(tmp_path / "run", ended(side, made)).first
    assert found is not None
    assert found.operator == f"tf::{name}"
    assert cause in found.cause


def test_an_inf_that_softmax_takes_up_is_no_overflow(tmp_path: Path) -> None:
    side = Side("tensorflow")
    masked = op(side, "AddV2", [numbers(0, 1), numbers(0, -np.inf)], numbers(0, -np.inf))
    found = report(tmp_path / "run", ended(side, op(side, "Softmax", [masked], numbers(1, 0))))
    assert found.first is None


def test_running_statistics_are_not_read_in_training(tmp_path: Path) -> None:
    side = Side("tensorflow")
    x, one, spoiled = numbers(1, 2), numbers(1, 1), numbers(np.inf, np.nan)
    made = op(side, "FusedBatchNormV3", [x, one, one, spoiled, spoiled], numbers(-1, 1), is_training=True)
    assert report(tmp_path / "run", ended(side, made)).first is None


def test_backward_operators_are_followed_where_none_is_missing() -> None:
    side = Side("tensorflow")
    grown = op(side, "SqrtGrad", [numbers(0, 1), numbers(1, 1)], numbers(np.inf, 0.5), phase="backward")
    op(side, "Mul", [grown, numbers(1, 1)], numbers(np.inf, 0.5), phase="backward")
    assert not lacks_operators("tensorflow", side.rows)
    op(side, "Mul", [numbers(np.inf, 1), numbers(1, 1)], numbers(np.inf, 1), phase="backward")
    assert lacks_operators("tensorflow", side.rows)
    assert lacks_operators("mindspore", [])
    assert not lacks_operators("torch", side.rows)


def test_a_backward_pass_without_gradients_of_modules_keeps_its_operators(tmp_path: Path) -> None:
    side = Side("tensorflow")
    ended(side, op(side, "Sqrt", [numbers(0, 1)], numbers(0, 1)))
    op(side, "Mul", [numbers(np.inf, 1), numbers(1, 1)], numbers(np.inf, 1), phase="backward")
    grown = op(side, "SqrtGrad", [numbers(0, 1), numbers(1, 1)], numbers(np.inf, 0.5), phase="backward")
    side.add(
        "kernel", {"input.grad": grown}, {"output.0": numbers(1, 1)}, kind="parameter", phase="optimizer", path="body"
    )
    found = report(tmp_path / "run", side)
    assert found.first is not None
    assert "tf::" in found.first.operator
