from __future__ import annotations

import numpy as np
import pytest
from recording_builder import Run, mlp

from jumar.base.errors import UsageError
from jumar.comparison import CompareOptions, compare
from jumar.comparison.measure.conditioning import amplifications
from jumar.comparison.measure.scales import accumulation_length, scale
from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, error_model, rounding
from jumar.comparison.model.calls import calls_of

EPS32 = FLOAT32_EPSILON


def call_of(name: str, inputs: list[np.ndarray], outputs: list[np.ndarray], **settings):
    run = Run()
    run.call(name, inputs, outputs, **settings)
    return calls_of(run.rows(0))[0]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "expected"),
    [
        ("aten::mm", [(4, 300), (300, 5)], [(4, 5)], 300),
        ("aten::addmm", [(5,), (4, 300), (300, 5)], [(4, 5)], 300),
        ("aten::convolution", [(2, 3, 8, 8), (16, 3, 5, 5)], [(2, 16, 8, 8)], 75),
        ("aten::sum.dim_IntList", [(64, 10)], [(10,)], 64),
        ("aten::native_layer_norm", [(6, 40)], [(6, 40), (6, 1), (6, 1)], 40),
        ("aten::add.Tensor", [(6, 40), (40,)], [(6, 40)], 1),
        ("aten::_softmax", [(6, 40)], [(6, 40)], 40),
    ],
)
def test_the_terms_of_a_sum_are_counted_from_the_shapes(name, inputs, outputs, expected) -> None:
    call = call_of(name, [floats(*shape) for shape in inputs], [floats(*shape) for shape in outputs])
    assert accumulation_length(call) == expected


def test_the_tolerance_grows_with_the_root_of_the_sum_and_not_with_half_types() -> None:
    short, long = (call_of("aten::mm", [floats(2, k), floats(k, 2)], [floats(2, 2)]) for k in (100, 10_000))
    output = short.outputs["output.0"]
    assert rounding(error_model(short), output, output) == pytest.approx(EPS32 * (9 + 20))
    assert rounding(error_model(long), output, output) == pytest.approx(EPS32 * (9 + 200))
    half = call_of("aten::mm", [floats(2, 100), floats(100, 2)], [floats(2, 2)], dtype="bfloat16")
    output = half.outputs["output.0"]
    assert rounding(error_model(half), output, output) == pytest.approx(2.0**-7, rel=0.01)


def test_operators_that_select_have_no_tolerance_but_that_of_a_cast() -> None:
    call = call_of("aten::relu", [floats(4)], [floats(4)])
    coarse = call_of("aten::relu", [floats(4)], [floats(4)], dtype="float16")
    output = call.outputs["output.0"]
    assert rounding(error_model(call), output, output) == 0.0
    assert rounding(error_model(call), output, coarse.outputs["output.0"]) == 2.0**-10


def test_cancelled_sums_are_judged_by_the_size_of_their_terms() -> None:
    x = floats(1000)
    x -= x.mean()
    call = call_of("aten::sum", [x], [x.sum(keepdims=True)])
    assert scale(call, "output.0") == pytest.approx(np.linalg.norm(x), rel=1e-4)


def test_a_bias_that_adds_little_excuses_little() -> None:
    x, weight, bias = floats(8, 64), floats(64, 4), floats(4) * np.float32(1e-3)
    factors = amplifications(call_of("aten::addmm", [bias, x, weight], [x @ weight + bias]))
    assert factors["input.0"] < 1e-3 * factors["input.1"]


def test_a_mean_near_zero_is_not_a_divergence() -> None:
    """The output mean of a layer norm is noise: 6.4e-10 against 1.7e-10 is 267 % of itself and nothing."""
    runs = []
    for noise in (0.0, 1e-7):
        run = Run()
        x = floats(64, 32)
        normal = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        normal = normal + np.float32(noise) * floats(64, 32, seed=5)
        mean, rstd = x.mean(1, keepdims=True), 1 / x.std(1, keepdims=True)
        hidden = run.call("aten::native_layer_norm", [x], [normal.astype(np.float32), mean, rstd], path="ln")
        run.call("aten::mean", [hidden], [np.array(hidden.mean(), np.float32)], path="ln")
        runs.append(run)
    comparison = compare(*runs)
    assert comparison.status == "agree", comparison.headline


def test_a_stricter_scale_finds_what_the_documented_one_excuses() -> None:
    reference, target = mlp(Run()), mlp(Run(), wrong={"layers.1": lambda out: out * (1 + 1.5e-6)})
    assert compare(reference, target).status == "agree"
    strict = compare(reference, target, options=CompareOptions(tolerance_scale=0.1))
    assert strict.first_divergence is not None
    assert strict.first_divergence.module_path == "layers.1"


@pytest.mark.parametrize("scale_factor", [0.0, -1.0])
def test_a_tolerance_scale_that_is_not_positive_is_refused(scale_factor) -> None:
    with pytest.raises(UsageError, match="greater than 0"):
        CompareOptions(tolerance_scale=scale_factor)
