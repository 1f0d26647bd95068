from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.comparison.diagnosis.signatures import Context, hypotheses

Array = np.ndarray[Any, Any]
SHAPES = [(8, 48, 32), (2, 12, 14, 14), (96, 64)]
NOISES = [0.0, 1e-7]


def normal(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def noisy(array: Array, size: float, seed: int) -> Array:
    noise = np.random.default_rng(seed + 1000).standard_normal(array.shape)
    return (array + size * np.abs(array) * noise).astype(np.float32)


def flip(a: Array) -> Array:
    return np.flip(a, 1)


def roll(a: Array) -> Array:
    return np.roll(a, 3, -1)


def halves(a: Array) -> Array:
    return np.roll(a, a.shape[-1] // 2, -1)


def interleaved(a: Array) -> Array:
    n = a.shape[-1]
    return a.reshape(*a.shape[:-1], 2, n // 2).swapaxes(-1, -2).reshape(a.shape)


def transposed(a: Array) -> Array:
    return np.ascontiguousarray(a.swapaxes(-1, -2)).reshape(a.shape)


def other_batch_order(a: Array) -> Array:
    return a[np.random.default_rng(5).permutation(a.shape[0])]


def tail(a: Array) -> Array:
    b = a.copy()
    b[..., -3:] = 0.5
    return b


def scaled_tail(a: Array) -> Array:
    b = a.copy()
    b[..., -2:] *= np.float32(1.05)
    return b


def one_tile(a: Array) -> Array:
    b = a.copy()
    b[..., 8:16, 8:16] *= 1.5
    return b


def periodic(a: Array) -> Array:
    b = a.copy()
    b[..., ::4] += np.float32(0.3) * b[..., ::4] ** 2
    return b


def one_row(a: Array) -> Array:
    b = a.copy()
    b[..., 0] = 1.0
    return b


def shifted(a: Array) -> Array:
    b = a.copy()
    b[:, 1:] = a[:, :-1]
    b[:, 0] = normal(b[:, 0].shape, 99)
    return b


def clipped(a: Array) -> Array:
    return np.clip(a, -1.5, 1.5)


def per_channel_bias(a: Array) -> Array:
    bias = normal((a.shape[1],), 3).reshape((1, -1) + (1,) * (a.ndim - 2))
    return a + np.float32(0.1) * bias


def other_epsilon(a: Array) -> Array:
    scale = 1 + 0.01 * np.random.default_rng(3).random((*a.shape[:-1], 1))
    return (a * scale).astype(np.float32)


def some_signs(a: Array) -> Array:
    b = a.copy()
    b.reshape(-1)[::7] *= -1
    return b


def grows(a: Array) -> Array:
    error = np.random.default_rng(3).standard_normal(a.shape) * 1e-3
    return (a + np.cumsum(error, axis=1) ** 3 * 1e3).astype(np.float32)


INJECTED: list[tuple[str, Callable[[Array], Array]]] = [
    ("scale", lambda a: a * np.float32(1.01)),
    ("scale", lambda a: a / np.float32(8)),
    ("offset", lambda a: a + np.float32(0.01)),
    ("offset", per_channel_bias),
    ("sign", lambda a: -a),
    ("sign", some_signs),
    ("layout", flip),
    ("layout", roll),
    ("layout", halves),
    ("layout", interleaved),
    ("layout", transposed),
    ("layout", other_batch_order),
    ("tiling", tail),
    ("tiling", scaled_tail),
    ("tiling", one_tile),
    ("tiling", periodic),
    ("index", one_row),
    ("index", shifted),
    ("saturation", clipped),
    ("normalisation", other_epsilon),
    ("formula", lambda a: a + np.float32(1e-3) * np.sin(3 * a)),
    ("accumulation", grows),
]


@pytest.mark.parametrize(("kind", "change"), INJECTED, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("noise", NOISES)
def test_what_was_injected_is_the_first_hypothesis(
    kind: str, change: Callable[[Array], Array], shape: tuple[int, ...], noise: float
) -> None:
    a = normal(shape, 0)
    found = hypotheses(a, noisy(change(a), noise, 1), Context())
    assert [one.kind for one in found[:1]] == [kind]


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["scale", "offset", "layout"]),
    st.integers(0, 10_000),
    st.lists(st.integers(2, 12), min_size=2, max_size=3),
    st.floats(0.02, 3),
)
def test_plain_transformations_of_any_shape_come_first(kind: str, seed: int, sizes: list[int], by: float) -> None:
    a = normal((*sizes, 16), seed)
    change = {"scale": a * np.float32(1 + by), "offset": a + np.float32(by), "layout": np.flip(a, seed % a.ndim)}
    assert hypotheses(a, change[kind])[0].kind == kind


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 20), min_size=1, max_size=4), st.floats(0, 8e-7))
def test_rounding_noise_gives_none(seed: int, shape: list[int], size: float) -> None:
    a = normal(tuple(shape), seed)
    assert hypotheses(a, noisy(a, size, seed)) == ()


@settings(derandomize=True, max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(SHAPES), st.floats(1e-5, 1.0))
def test_noise_beyond_rounding_has_no_cause_that_is_certain(seed: int, shape: tuple[int, ...], size: float) -> None:
    a = normal(shape, seed)
    assert hypotheses(a, a + np.float32(size) * normal(shape, seed + 1)) == ()


def test_equal_arrays_give_none() -> None:
    assert hypotheses(normal((8, 8), 0), normal((8, 8), 0)) == ()


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        hypotheses(np.zeros(3), np.zeros(4))


@pytest.mark.parametrize(
    ("ratio", "context", "word"),
    [
        (1 / 8, Context(dims=(64,)), "√64"),
        (1 / 6, Context(num_ranks=6), "the number of ranks, 6"),
        (0.9, Context(numbers={"dropout p": 0.1}), "1 - dropout p"),
        (65536.0, Context(), "2^16 (a loss scale)"),
        (1 / 5, Context(numbers={"accumulation steps": 5}), "accumulation steps"),
        (255.0, Context(), "pixels"),
    ],
)
def test_a_ratio_is_recognised(ratio: float, context: Context, word: str) -> None:
    a = normal((7, 11, 13), 0)
    best = hypotheses(a, a * np.float32(ratio), context)[0]
    assert word in best.statement


def test_a_ratio_that_is_no_number_of_the_list_stays_a_number() -> None:
    a = normal((7, 11, 13), 0)
    best = hypotheses(a, a * np.float32(1.2345))[0]
    assert (best.kind, best.evidence["recognised_as"]) == ("scale", [])


@pytest.mark.parametrize("bits", [16, 13, 12])
def test_low_bits_that_are_zero_name_the_format(bits: int) -> None:
    a = normal((64, 64), 0)
    b = (a.view(np.uint32) + np.uint32(1 << (bits - 1))) & np.uint32(0xFFFFFFFF ^ ((1 << bits) - 1))
    best = hypotheses(a, b.view(np.float32))[0]
    assert (best.kind, best.evidence["zero_bits"]) == ("precision", bits)


def test_truncation_shows_below_the_tolerance() -> None:
    exact = np.random.default_rng(0).standard_normal((64, 64))
    rounded = exact.astype(np.float32)
    truncated = np.where(np.abs(rounded) > np.abs(exact), np.nextafter(rounded, np.float32(0)), rounded)
    best = hypotheses(rounded, truncated)[0]
    assert best.kind == "rounding"
    assert "toward zero" in best.statement


@pytest.mark.parametrize(("kept", "name"), [(10, "TF32"), (11, "HF32"), (7, "bfloat16")])
def test_a_product_of_rounded_inputs_has_the_size_of_its_format(kept: int, name: str) -> None:
    a, b = normal((64, 256), 0), normal((256, 64), 1)
    low = np.uint32(1 << (23 - kept))

    def rounded(x: Array) -> Array:
        return ((x.view(np.uint32) + low // 2) & ~(low - np.uint32(1))).view(np.float32)

    best = hypotheses(a @ b, rounded(a) @ rounded(b), Context(operator="aten::mm"))[0]
    assert best.kind == "precision"
    assert name in best.statement
    assert hypotheses(a @ b, rounded(a) @ rounded(b), Context(operator="aten::add")) == ()


def test_flushed_denormals_are_told_by_their_limit() -> None:
    a = (normal((64, 64), 0) * np.float32(2e-5)).astype(np.float32)
    b = np.where(np.abs(a) < 2.0**-14, 0, a).astype(np.float32)
    best = hypotheses(a, b)[0]
    assert best.kind == "denormals"
    assert "float16" in best.statement


def test_an_overflow_is_told_by_the_size_of_what_became_infinite() -> None:
    a = normal((64, 64), 0) * np.float32(30000)
    b = np.where(np.abs(a) > 65504, np.inf * np.sign(a), a).astype(np.float32)
    best = hypotheses(a, b)[0]
    assert best.kind == "saturation"
    assert "float16" in best.statement


def test_whole_rows_of_nan_are_a_mask() -> None:
    b = normal((4, 16, 16), 0)
    a = b.copy()
    b[1, 3] = np.nan
    b[2, 5:7] = np.nan
    assert hypotheses(a, b)[0].kind == "mask"


def test_a_difference_above_the_diagonal_is_a_causal_mask() -> None:
    a = normal((4, 16, 16), 0)
    b = np.where(np.triu(np.ones((16, 16), bool), 1), a + normal((4, 16, 16), 1), a).astype(np.float32)
    assert hypotheses(a, b)[0].kind == "mask"


def test_rows_without_content_that_differ_are_a_mask() -> None:
    a = normal((4, 16, 16), 0)
    a[:, 9] = 0
    a[1, 3] = 0
    b = a.copy()
    b[:, 9] = normal((4, 16), 2)
    b[1, 3] = normal((16,), 3)
    assert hypotheses(a, b)[0].kind == "mask"


def test_the_values_of_the_step_before_are_stale() -> None:
    a, before = normal((32, 32), 0), normal((32, 32), 1)
    assert hypotheses(a, before, Context(previous_target=before))[0].kind == "stale"
    assert hypotheses(a, before) == ()


def test_another_dropout_mask_is_randomness() -> None:
    x = normal((32, 64), 0)
    masks = [np.random.default_rng(seed).random(x.shape) > 0.1 for seed in (1, 2)]
    a, b = (np.where(mask, x / np.float32(0.9), 0).astype(np.float32) for mask in masks)
    assert hypotheses(a, b)[0].kind == "randomness"


def test_a_softmax_over_another_dimension_is_named() -> None:
    x = np.exp(normal((4, 12, 16), 0))
    a, b = x / x.sum(-1, keepdims=True), x / x.sum(1, keepdims=True)
    best = hypotheses(a, b)[0]
    assert best.kind == "normalisation"
    assert "dimension 2" in best.statement
    assert "dimension 1" in best.statement


@pytest.mark.parametrize("by", [1, -1])
def test_rows_beside_those_that_are_named_are_an_index_off_by_one(by: int) -> None:
    table = normal((50, 16), 0)
    index = np.random.default_rng(1).integers(1, 49, (4, 12))
    best = hypotheses(table[index], table[index + by], Context(inputs=(table, index)))[0]
    assert (best.kind, best.evidence["off_by"]) == ("index", by)


def test_a_ratio_that_is_not_well_known_is_not_recognised() -> None:
    a = normal((64, 64), 0)
    found = hypotheses(a, a * np.float32(0.3317) + np.float32(0.1) * normal((64, 64), 1))
    assert [one.evidence["recognised_as"] for one in found if one.kind == "scale"] == [[]]


def test_the_gelu_variants_differ_by_a_formula() -> None:
    x = normal((64, 128), 0).astype(np.float64)
    erf = np.vectorize(__import__("math").erf)
    exact = 0.5 * x * (1 + erf(x / np.sqrt(2)))
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    context = Context(inputs=(x,))
    best = hypotheses(exact.astype(np.float32), tanh.astype(np.float32), context)[0]
    assert (best.kind, best.evidence["function_of"]) == ("formula", "the call's input")


def test_a_tensor_larger_than_what_is_examined_is_judged_by_its_leading_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jumar.comparison.diagnosis.signatures.pair.MAX_ELEMENTS", 1000)
    a = normal((100, 50), 0)
    assert hypotheses(a, a * np.float32(2))[0].kind == "scale"


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.complex64, np.float16, np.float64])
def test_any_dtype_is_taken(dtype: type) -> None:
    a = (normal((8, 16), 0) * 10).astype(dtype)
    found = hypotheses(a, np.flip(a, 1).copy(), Context())
    assert dtype is np.bool_ or found[0].kind == "layout"
