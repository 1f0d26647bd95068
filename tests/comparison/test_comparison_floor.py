"""Noise floors: measured from further recordings of the reference, told in multiples."""

from __future__ import annotations

import numpy as np
import pytest
from recording_builder import Run, mlp

from jumar.base.errors import RecordingError
from jumar.comparison import compare
from jumar.comparison.judge.outputs import MEASURED
from jumar.comparison.measure.tolerance import FURTHEST, MULTIPLES, NARROWEST, NoiseFloor
from jumar.comparison.model.calls import calls_of

Array = np.ndarray


def noisy(size: float, seed: int = 3):
    """Return what makes an output of a layer noisy."""
    random = np.random.default_rng(seed)
    return lambda out: out * (1 + size * random.standard_normal(out.shape))


def a_run(size: float = 0.0, seed: int = 3, values: str = "tensors", **settings) -> Run:
    wrong = {"layers.1": noisy(size, seed)} if size else {}
    return mlp(Run(values=values), wrong=wrong, **settings)


def test_noise_that_the_model_takes_for_an_error_is_excused_by_a_floor_that_shows_it() -> None:
    """As of a device whose matrix unit rounds its factors, which no setting tells."""
    reference, target = a_run(), a_run(3e-5, seed=4)
    assert compare(reference, target).status == "diverge"
    calibrated = compare(reference, target, floors=[a_run(2e-5, seed=5)])
    assert calibrated.status == "agree", calibrated.headline


def test_an_error_above_the_measured_floor_is_told_in_its_multiples() -> None:
    comparison = compare(a_run(), a_run(1e-2, seed=4), floors=[a_run(2e-5, seed=5)])
    first = comparison.first_divergence
    assert first is not None
    assert (first.module_path, first.tolerance_origin) == ("layers.1", MEASURED)
    assert first.floor == pytest.approx(2e-5, rel=2.0)
    assert first.times_floor == pytest.approx(first.error / first.floor)
    assert first.tolerance == pytest.approx(MULTIPLES * first.floor)
    assert "the measured noise floor of" in comparison.findings[0].message


def test_without_floor_recordings_the_floor_is_a_fraction_of_the_tolerance() -> None:
    first = compare(a_run(), a_run(1e-2)).first_divergence
    assert first is not None
    assert first.floor == pytest.approx(first.tolerance / MULTIPLES)


def test_the_greatest_of_several_floors_counts() -> None:
    reference, target = a_run(), a_run(3e-5, seed=4)
    both = compare(reference, target, floors=[a_run(1e-7, seed=6), a_run(2e-5, seed=5)])
    assert both.status == "agree"
    assert compare(reference, target, floors=[a_run(1e-7, seed=6)]).status == "diverge"


@pytest.mark.parametrize("other", [{"seed": 9}, {"data_seed": 9}])
def test_a_floor_of_another_run_is_refused(other) -> None:
    with pytest.raises(RecordingError, match="is of another run"):
        compare(a_run(), a_run(), floors=[mlp(Run(values="tensors"), **other)])


def test_a_floor_without_a_common_step_is_refused() -> None:
    with pytest.raises(RecordingError, match="no step in common"):
        compare(a_run(), a_run(), floors=[mlp(Run(values="tensors"), step=7)])


def test_a_floor_of_fewer_steps_serves_the_steps_it_has() -> None:
    reference, target = Run(values="tensors"), Run(values="tensors")
    for step in (0, 1):
        mlp(reference, step=step)
        mlp(target, step=step, wrong={"layers.1": noisy(3e-5, seed=4)})
    comparison = compare(reference, target, floors=[a_run(2e-5, seed=5)])
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.step == 1


def test_inputs_far_beyond_what_was_measured_are_left_to_the_model() -> None:
    floor, step = NoiseFloor(), compare(a_run(), a_run(1e-7))
    floor.add(step.operators)
    call = next(diff for diff in step.operators if diff.inherited)
    rows = [row for row in a_run().rows(0) if row.seq == call.reference_seq]
    reference = calls_of(rows)[0]
    near = floor.tolerance(reference, "output.0", "float32", (1e-6, 5.0), call.inherited)
    far = floor.tolerance(reference, "output.0", "float32", (1e-6, 5.0), 2 * FURTHEST * call.inherited)
    assert near == (1e-6, 5.0 / NARROWEST)
    assert far == (1e-6, 5.0)


def test_a_floor_says_nothing_of_a_coarser_dtype() -> None:
    floor = NoiseFloor()
    floor.add(compare(a_run(), a_run(1e-7)).operators)
    reference = calls_of(a_run().rows(0))[3]
    assert floor.tolerance(reference, "output.0", "float32", (1e-6, 1e-6), 1e-9) is not None
    assert floor.tolerance(reference, "output.0", "bfloat16", (1e-6, 1e-6), 1e-9) is None
