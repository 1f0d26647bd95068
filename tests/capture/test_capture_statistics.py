from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jumar.capture.notes.memory import dense, is_gapless
from jumar.capture.probes.stats import _from_device, device_statistics, host_statistics


def reference(array: np.ndarray) -> tuple:
    """The definition in `TensorRow`, by NumPy in float64."""
    values = np.abs(array.astype(np.complex128)) if array.dtype.kind == "c" else array.astype(np.float64)
    num_nan, num_inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None, None, None, None, num_nan, num_inf
    with np.errstate(over="ignore"):
        scale = np.abs(finite).max() or 1.0
        l2 = scale * math.sqrt(((finite / scale) ** 2).sum())
        return finite.min(), finite.max(), scale * (finite / scale).mean(), l2, num_nan, num_inf


SQUARES_VANISH = 1e-19
"""The norm is summed in float32 on the device, where squares of smaller numbers are 0."""


def check(found: tuple, expected: tuple, rel: float = 1e-5) -> None:
    assert found[4:] == expected[4:]
    if expected[0] is None:
        assert found[:4] == (None,) * 4
        return
    size = max(abs(expected[0]), abs(expected[1]))
    for value, wanted in zip(found[:4], expected[:4], strict=True):
        assert value == pytest.approx(wanted, rel=rel, abs=max(rel * size, SQUARES_VANISH))


ARRAYS = st.sampled_from(["float32", "float64", "float16", "int64", "int8", "uint8", "bool", "complex64"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=6))
)


@settings(max_examples=150, deadline=None)
@given(ARRAYS)
def test_host_statistics_follow_their_definition(array: np.ndarray) -> None:
    check(host_statistics(torch.from_numpy(array)), reference(array))


ELEMENTS = st.floats(width=32, min_value=-(2.0**50), max_value=2.0**50) | st.sampled_from(
    [math.nan, math.inf, -math.inf]
)


@settings(max_examples=100, deadline=None)
@given(hnp.arrays("float32", hnp.array_shapes(max_dims=3, max_side=6), elements=ELEMENTS))
def test_device_statistics_agree_with_those_of_the_host(array: np.ndarray) -> None:
    numbers = device_statistics(torch.from_numpy(array)).tolist()
    check(_from_device(numbers, array.size), reference(array))


@pytest.mark.parametrize("factor", [1e-25, 1e25])
def test_very_small_and_very_large_values_keep_their_norm(factor: float) -> None:
    values = torch.full((100,), factor)
    assert host_statistics(values)[3] == pytest.approx(10 * factor)


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base.t(),
        lambda base: base[:, ::2],
        lambda base: base[2:3].expand(7, -1),
        lambda base: base.unsqueeze(1).expand(-1, 3, -1),
        lambda base: base[1:].t()[2:],
        lambda base: base[0, 0].expand(4),
    ],
)
def test_views_have_the_statistics_of_their_elements(view) -> None:
    tensor = view(torch.randn(5, 6))
    check(host_statistics(tensor), reference(tensor.numpy()))


def test_bfloat16_is_judged_by_its_values() -> None:
    tensor = torch.randn(50).to(torch.bfloat16)
    check(host_statistics(tensor), reference(tensor.float().numpy()))


def test_an_expanded_tensor_is_read_once() -> None:
    flat, repeats = dense(torch.ones(3, 1).expand(3, 1000))
    assert (flat.numel(), repeats) == (3, 1000)


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ((2, 3), (3, 1), True),
        ((3, 2), (1, 3), True),
        ((2, 3), (4, 1), False),
        ((2, 1), (1, 9), True),
        ((2,), (0,), False),
    ],
)
def test_gaps_in_memory_are_noticed(shape, stride, expected) -> None:
    assert is_gapless(shape, stride) is expected
