"""Scaled losses: gradients of one side carry a factor, and nobody is accused of it."""

from __future__ import annotations

import numpy as np
import pytest
from recording_builder import Run

from jumar.comparison import compare
from jumar.comparison.judge.loss_scaling import rescaled
from jumar.comparison.model.calls import loss_scale

Array = np.ndarray


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def a_run(scale: float, *, values: str = "stats", wrong: float = 1.0) -> Run:
    """Return a step of a linear layer: forward, scaled loss, backward, unscaled gradient."""
    run = Run(values=values)
    x, weight, one = floats(16, 8), floats(8, 4, seed=1), np.ones((), np.float32)
    out = run.call("aten::mm", [x, weight], [x @ weight])
    loss = run.call("aten::mean", [out], [np.asarray(out.mean())])
    factor = np.asarray(scale, np.float32)
    if scale != 1.0:
        run.call("aten::mul.Tensor", [loss, factor], [np.asarray(loss * factor)], path="")
    rows = run._rows[0, 0]
    run.call("loss", [], [loss], path="", kind="loss")
    root = run.call("aten::ones_like", [loss], [one], path="")
    if scale != 1.0:
        root = run.call("aten::mul.Tensor", [root, factor], [np.asarray(root * factor)], path="", phase="backward")
    spread = np.full((16, 4), root / 64, np.float32)
    run.call("aten::expand", [root], [spread], phase="backward")
    made = (x.T @ spread * wrong).astype(np.float32)
    run.call("aten::mm", [x, spread], [made], phase="backward")
    if scale != 1.0:
        run.call("aten::_amp_foreach_non_finite_check_and_unscale_", [made], [], path="", phase="optimizer")
        made /= np.float32(scale)
    run.optimizer([{"lr": 1e-3}], name="SGD")
    run.parameter("weight", made, (weight - 1e-3 * made).astype(np.float32))
    assert rows
    return run


@pytest.mark.parametrize("values", ["stats", "tensors"])
@pytest.mark.parametrize("scales", [(1.0, 1024.0), (1024.0, 1.0), (256.0, 65536.0)])
def test_runs_that_scale_their_losses_differently_agree(scales, values) -> None:
    comparison = compare(a_run(scales[0], values=values), a_run(scales[1], values=values))
    assert comparison.status == "agree", comparison.headline
    backward = [diff for diff in comparison.operators if diff.phase == "backward" and diff.name == "aten::mm"]
    assert [diff.status for diff in backward] == ["agree"]


@pytest.mark.parametrize("values", ["stats", "tensors"])
def test_a_wrong_gradient_is_named_below_another_scale(values) -> None:
    first = compare(a_run(1.0, values=values), a_run(1024.0, values=values, wrong=1.01)).first_divergence
    assert first is not None
    assert (first.name, first.phase) == ("aten::mm", "backward")
    assert first.error == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 4096.0])
def test_the_scale_is_read_from_the_product_that_takes_the_loss(scale) -> None:
    assert loss_scale(a_run(scale).rows(0)) == scale


def test_a_rescaled_row_has_rescaled_figures_and_sketch() -> None:
    row = a_run(1.0).rows(0)[0].outputs[0]
    twice = rescaled(row, 2.0)
    assert (twice.minimum, twice.maximum, twice.l2) == (2 * row.minimum, 2 * row.maximum, 2 * row.l2)
    assert (twice.num_nan, twice.shape, twice.storage) == (row.num_nan, row.shape, row.storage)
