"""The random-sign projection: its definition, its algebra and what it sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.recording import sketch

SIZES = [0, 1, 5, 63, 64, 65, 128, sketch.LANES, 4093, 10_000, sketch.TILE, sketch.TILE + 1, 3 * sketch.BLOCK + 17]


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def length(values: np.ndarray) -> float:
    return math.sqrt(float(np.square(values, dtype=np.float64).sum()))


def relative(a: np.ndarray, b: np.ndarray) -> float:
    norm = float(np.linalg.norm(a.astype(np.float64)))
    return sketch.relative_l2(sketch.sketch_of(a), sketch.sketch_of(b), norm)


@pytest.mark.parametrize("size", SIZES)
def test_the_projection_adds_each_element_with_its_sign_to_its_bucket(size: int) -> None:
    values = draw(size, size)
    indices = np.arange(size)
    expected = np.zeros(64)
    np.add.at(expected, sketch.buckets(indices), values * sketch.signs(indices).astype(np.float64))
    found = sketch.project(values)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() <= sketch.ROUNDING * max(1e-30, float(np.linalg.norm(values)))


def test_signs_are_plain_integer_arithmetic_that_torch_computes_alike() -> None:
    numbers = torch.arange(1 << 16, dtype=torch.int64) * 65_537
    x = numbers & 0xFFFFFFFF
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    x = (x * 0x735A2D97) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    assert np.array_equal(sketch.mix(numbers.numpy()), x.numpy())


def test_the_signs_are_those_of_the_format() -> None:
    indices = np.array([0, 1, 2, 3, 4, 5, 6, 7, 70, 2_039, 260_992, 500_000, 10**8, 10**10])
    assert sketch.signs(indices).astype(int).tolist() == SIGNS
    assert sketch.buckets(indices).tolist() == BUCKETS


SIGNS = [1, -1, -1, 1, 1, 1, -1, -1, -1, 1, -1, -1, -1, 1]
BUCKETS = [0, 1, 2, 3, 4, 5, 6, 7, 7, 0, 0, 53, 57, 9]


def test_signs_are_even_and_those_of_neighbours_independent() -> None:
    signs = sketch.signs(np.arange(2_000_000)).astype(np.float64)
    bound = 5 / math.sqrt(signs.size)
    for lag in (0, 1, 2, 63, 64, 65, 256, 1024, 2039, 4096, 65_536, sketch.BLOCK):
        product = signs.mean() if lag == 0 else float((signs[lag:] * signs[:-lag]).mean())
        assert abs(product) <= bound


def test_up_to_64_elements_are_kept_exactly() -> None:
    values = draw(1, 8, 8)
    indices = np.arange(64)
    assert sorted(sketch.buckets(indices)) == list(range(64))
    back = sketch.unpack(sketch.sketch_of(values))[sketch.buckets(indices)] * sketch.signs(indices)
    assert np.array_equal(back, values.reshape(-1))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    cuts=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    seed=st.integers(0, 1000),
)
def test_shards_add_up_to_the_whole(shape: list[int], cuts: list[float], seed: int) -> None:
    whole = draw(seed, *shape)
    axis = seed % len(shape)
    at = int(cuts[0] * shape[axis])
    first, second = np.split(whole, [at], axis)
    start = [at if i == axis else 0 for i in range(len(shape))]
    parts = [
        sketch.pack(sketch.project_shard(first, shape, [0] * len(shape))),
        sketch.pack(sketch.project_shard(second, shape, start)),
    ]
    found, expected = sketch.unpack(sketch.add(*parts)), sketch.project(whole)
    assert np.abs(found - expected).max() <= sketch.ROUNDING * float(np.linalg.norm(whole))


def test_a_shard_of_complex_numbers_has_its_place() -> None:
    whole = draw(3, 30, 7) + 1j * draw(4, 30, 7)
    parts = [
        sketch.pack(sketch.project_shard(whole[:, :3], (30, 7), (0, 0))),
        sketch.pack(sketch.project_shard(whole[:, 3:], (30, 7), (0, 3))),
    ]
    assert np.allclose(sketch.unpack(sketch.add(*parts)), sketch.project(whole), atol=1e-5)


@pytest.mark.parametrize(("whole", "start"), [((4, 4), (1, 0)), ((4,), (0,)), ((4, 4), (-1, 0))])
def test_a_shard_that_does_not_fit_is_refused(whole: tuple[int, ...], start: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a part of"):
        sketch.project_shard(np.zeros((4, 4), np.float32), whole, start)


def test_partial_sums_add_up() -> None:
    parts = [draw(seed, 300, 70) for seed in range(4)]
    found = sketch.unpack(sketch.add(*map(sketch.sketch_of, parts)))
    assert np.allclose(found, sketch.project(np.sum(parts, axis=0)), atol=1e-3)


HEADS = draw(7, 4, 128, 8, 64)
SQUARE = draw(8, 512, 512)
CHANGES = {
    "flip of rows": (SQUARE, SQUARE[::-1]),
    "flip of columns": (SQUARE, SQUARE[:, ::-1]),
    "roll by one row": (SQUARE, np.roll(SQUARE, 1, 0)),
    "roll by 64 columns": (SQUARE, np.roll(SQUARE, 64, 1)),
    "roll by 2039 elements": (SQUARE, np.roll(SQUARE, 2039)),
    "transpose": (SQUARE, SQUARE.T.copy()),
    "permuted rows": (SQUARE, SQUARE[np.random.default_rng(0).permutation(512)]),
    "permuted columns": (SQUARE, SQUARE[:, np.random.default_rng(0).permutation(512)]),
    "two heads swapped": (HEADS, HEADS[:, :, [1, 0, 2, 3, 4, 5, 6, 7]]),
    "heads and positions mixed": (HEADS, HEADS.transpose(0, 2, 1, 3).reshape(HEADS.shape)),
    "one column zeroed": (SQUARE, np.where(np.arange(512) == 64, 0, SQUARE)),
    "one row zeroed": (SQUARE, np.where(np.arange(512)[:, None] == 64, 0, SQUARE)),
    "a constant added": (SQUARE, SQUARE + np.float32(0.01)),
    "scaled": (SQUARE, SQUARE * np.float32(1.01)),
    "every 64th element": (SQUARE, np.where(np.arange(512) % 64 == 0, SQUARE * 1.1, SQUARE)),
    "bfloat16": (SQUARE, torch.from_numpy(SQUARE).bfloat16().float().numpy()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_place_and_value_show_their_size(change: str) -> None:
    a, b = (np.ascontiguousarray(side, dtype=np.float32) for side in CHANGES[change])
    true = float(np.linalg.norm(b.astype(np.float64) - a) / np.linalg.norm(a.astype(np.float64)))
    assert abs(relative(a, b) - true) <= 4 * sketch.RELATIVE_STD * true + sketch.ROUNDING


def _changed(rng: np.random.Generator, kind: int, a: np.ndarray) -> np.ndarray:
    b = a.copy()
    if kind == 0:
        b += (10.0 ** rng.uniform(-5, 0) * rng.standard_normal(a.shape)).astype(np.float32)
    elif kind == 1:
        b = np.roll(a, int(rng.integers(1, a.size)))
    elif kind == 2:
        b = np.flip(a, int(rng.integers(0, a.ndim)))
    elif kind == 3:
        b = a[rng.permutation(a.shape[0])]
    elif kind == 4:
        b[:, int(rng.integers(0, a.shape[1]))] *= 1.5
    elif kind == 5:
        b[int(rng.integers(0, a.shape[0]))] = 0
    elif kind == 6:
        b += np.float32(10.0 ** rng.uniform(-4, 0))
    elif kind == 7:
        b[:, :: int(rng.integers(1, max(2, a.shape[1] // 4)))] += np.float32(0.1)
    elif kind == 8:
        b = a[:, rng.permutation(a.shape[1])]
    elif kind == 9:
        b *= np.float32(1 + 10.0 ** rng.uniform(-4, 0))
    return np.ascontiguousarray(b)


def drawn_errors(num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return estimate and truth of `num` changes of drawn kinds and shapes."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(num):
        shape = (int(rng.integers(2, 60)), int(rng.choice([8, 64, 100, 128, 256, 1000])))
        a = rng.standard_normal(shape).astype(np.float32)
        b = _changed(rng, k % 10, a)
        norms = length(a), length(b)
        estimate = sketch.l2_distance(sketch.sketch_of(a), sketch.sketch_of(b))
        true = length(b.astype(np.float64) - a)
        rows.append((estimate, true, sketch.error_bound(estimate, *norms)))
    figures = np.array(rows)
    return figures[:, 0] / np.maximum(figures[:, 1], 1e-30), np.abs(figures[:, 0] - figures[:, 1]) <= figures[:, 2]


def test_the_error_bound_holds_for_drawn_changes_at_its_confidence() -> None:
    ratios, within = drawn_errors(2000, 1)
    assert within.mean() >= sketch.CONFIDENCE
    assert np.sqrt(np.mean(ratios**2)) == pytest.approx(1.0, abs=0.01)
    assert ratios.std() <= 1.1 * sketch.RELATIVE_STD


def test_the_cosine_follows_from_the_norms_and_the_distance() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        a = rng.standard_normal(5000).astype(np.float32)
        b = (a * rng.uniform(0.5, 2) + rng.uniform(0, 2) * rng.standard_normal(5000)).astype(np.float32)
        norms = float(np.linalg.norm(a)), float(np.linalg.norm(b))
        true = float(a.astype(np.float64) @ b) / norms[0] / norms[1]
        found = sketch.cosine(sketch.sketch_of(a), sketch.sketch_of(b), *norms)
        assert found == pytest.approx(true, abs=5 * sketch.RELATIVE_STD * (norms[0] / norms[1] + norms[1] / norms[0]))
    assert sketch.cosine(sketch.sketch_of(a), sketch.sketch_of(a), norms[0], norms[0]) == 1.0
    assert sketch.cosine(sketch.sketch_of(a), sketch.sketch_of(a), 0.0, norms[0]) is None


@pytest.mark.parametrize("size", [8, 65, 5000, 300_000])
def test_a_single_infinity_fills_no_bucket(size: int) -> None:
    values = np.ones(size, np.float32)
    values[size // 2] = -np.inf
    zeroed = np.where(np.isfinite(values), values, 0)
    assert sketch.sketch_of(zeroed) == sketch.sketch_of(values)


def test_values_that_are_not_finite_count_as_zero() -> None:
    values = draw(9, 3, sketch.LANES)
    broken = values.copy()
    broken[1, 5], broken[0, 0], broken[2, 7] = np.nan, np.inf, -np.inf
    values[1, 5] = values[0, 0] = values[2, 7] = 0
    assert sketch.sketch_of(broken) == sketch.sketch_of(values)
    assert sketch.sketch_of(np.full(5, np.nan)) == sketch.sketch_of(np.zeros(5))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "bool", "uint8"])
def test_other_dtypes_are_cast_to_float32_first(dtype: str) -> None:
    values = (draw(10, 50, 90) * 10).astype(dtype)
    assert sketch.sketch_of(values) == sketch.sketch_of(values.astype(np.float32))


def test_complex_numbers_are_two_elements() -> None:
    values = draw(11, 50, 90) + 1j * draw(12, 50, 90)
    parts = np.stack([values.real, values.imag], -1)
    assert sketch.sketch_of(values) == sketch.sketch_of(parts)


def test_logical_order_counts_not_memory() -> None:
    assert sketch.sketch_of(SQUARE.T) == sketch.sketch_of(SQUARE.T.copy()) != sketch.sketch_of(SQUARE)


def test_huge_values_saturate_instead_of_becoming_infinite() -> None:
    found = sketch.project(np.full(sketch.TILE, 3e38, np.float64))
    assert np.isfinite(found).all()
    assert np.isfinite(sketch.project(np.array([1e300, 1.0]))).all()


def test_another_order_of_summation_stays_below_the_stated_rounding() -> None:
    for size in (65, 5_000, 100_000, 2_000_000):
        values = draw(size, size)
        indices = np.arange(size)
        exact = np.zeros(64)
        np.add.at(exact, sketch.buckets(indices), values * sketch.signs(indices).astype(np.float64))
        apart = float(np.linalg.norm(sketch.project(values) - exact)) / float(np.linalg.norm(values))
        assert apart <= sketch.ROUNDING / 2


def test_a_sketch_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a sketch has 256 bytes; got 8"):
        sketch.unpack(b"12345678")
