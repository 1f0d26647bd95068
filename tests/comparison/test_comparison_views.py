"""Dimensions of two views of the same values are not compared: the results are."""

from __future__ import annotations

import numpy as np
import pytest
from recording_builder import Run

from jumar.comparison import compare
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.outputs import compared_diff, judge_outputs
from jumar.comparison.judge.reading import Inputs
from jumar.comparison.measure.distances import measure
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import REGION

VALUES = np.random.default_rng(3).standard_normal((4, 12, 7)).astype(np.float32)


def summed(*, flat: bool, kept: bool = False, noise: float = 0.0, factor: float = 1.0) -> Run:
    """Return a run that sums a tensor over all rows, as it is or as a matrix. `noise` is the rounding of its input;
    with `kept` the sum keeps the dimensions, so that the two sums are of other shapes."""
    run = Run()
    x = run.call("aten::tanh", [VALUES], [(VALUES * np.float32(1.0 + noise)).astype(np.float32)])
    x = run.call("aten::exp", [x], [(x * np.float32(1.0 + noise)).astype(np.float32)])
    read = run.call("aten::view", [x], [x.reshape(48, 7)]) if flat else x
    total = (x.reshape(48, 7).sum(0) * np.float32(factor)).astype(np.float32)
    shape = (1,) * (read.ndim - 1) + (7,) if kept else (7,)
    arguments = {"dim": [0] if flat else [0, 1], "keepdim": kept}
    s = run.call("aten::sum.dim_IntList", [read], [total.reshape(shape)], arguments=arguments)
    s = run.call("aten::view", [s], [total]) if kept else s
    run.call("aten::mul.Tensor", [s], [s * np.float32(2.0)], arguments={"other": 2})
    return run


@pytest.mark.parametrize(("kept", "noise"), [(False, 1e-7), (True, 1e-7)])
def test_a_sum_over_a_view_agrees_with_one_over_all_its_dimensions(kept, noise) -> None:
    found = compare(summed(flat=False, kept=kept), summed(flat=True, kept=kept, noise=noise))
    assert (found.status, found.first_divergence) == ("agree", None), found.headline


@pytest.mark.parametrize("kept", [False, True])
def test_another_result_of_a_view_is_a_divergence(kept) -> None:
    first = compare(summed(flat=False, kept=kept), summed(flat=True, kept=kept, factor=1.1)).first_divergence
    assert first is not None
    assert first.name == "aten::sum.dim_IntList"


def test_arguments_of_calls_that_leave_a_region_accuse_nothing_within_the_tolerance() -> None:
    """The region as a whole is one calculation; the calls at its end are not."""
    rows = [summed(flat=flat, noise=1e-6 * flat).rows(0, 0)[-2] for flat in (False, True)]
    reference, target = (
        Call(row, REGION, row.module_path, {}, {tensor.name: tensor for tensor in row.outputs}) for row in rows
    )
    found = [("output.0", measure(reference.outputs["output.0"], target.outputs["output.0"], None))]
    inputs = Inputs(noise=1e-3)
    judged = judge_outputs(reference, inputs, found, Memory(), 1.0)
    diff = compared_diff(reference, target, inputs, found, judged)
    assert (diff.status, [a.name for a in diff.arguments]) == ("inherited", ["dim"])
