from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from recording_builder import tensor_row

from jumar.comparison.measure.arrays import BLOCK, distance
from jumar.comparison.measure.distances import measure

FLOATS = hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e3, 1e3, width=32))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    first = draw(FLOATS)
    second = draw(hnp.arrays(np.float32, first.shape, elements=st.floats(-1e3, 1e3, width=32)))
    return first, second


@given(pairs())
def test_the_distance_is_that_of_the_formulas(pair) -> None:
    a, b = (array.astype(np.float64) for array in pair)
    found = distance(*pair)
    assert math.sqrt(found.squares) == pytest.approx(np.linalg.norm(b - a), abs=1e-9)
    assert (found.max_abs.difference if found.max_abs else 0.0) == np.abs(b - a).max()
    assert found.num_different == np.count_nonzero(a != b)
    if np.linalg.norm(a) > 0 and np.linalg.norm(b) > 0:
        assert found.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-9)


@given(pairs())
def test_statistics_never_claim_more_than_the_tensors_show(pair) -> None:
    a, b = pair
    bound = measure(tensor_row("output.0", a, 1), tensor_row("output.0", b, 1))
    exact = distance(a, b)
    slack = 1 + 1e-6
    assert bound.l2_error <= math.sqrt(exact.squares) * slack + 1e-6
    assert bound.max_error <= (exact.max_abs.difference if exact.max_abs else 0.0) * slack + 1e-6


def test_index_and_values_of_the_greatest_differences_span_blocks() -> None:
    a = np.ones((3, BLOCK), np.float32)
    b = a.copy()
    a[2, 5], b[2, 5] = 100.0, 103.0
    b[1, 7] = 2.5
    found = distance(a, b)
    assert found.max_abs is not None
    assert (found.max_abs.index, found.max_abs.reference, found.max_abs.target) == ((2, 5), 100.0, 103.0)
    assert found.max_relative is not None
    assert (found.max_relative.index, found.max_relative.difference) == ((1, 7), 1.5)


def test_equal_infinities_are_no_difference_and_others_are() -> None:
    a = np.array([1.0, -np.inf, np.nan], np.float32)
    assert not distance(a, a.copy()).nonfinite_differs
    assert distance(a, np.array([1.0, np.inf, np.nan], np.float32)).nonfinite_differs
    assert distance(a, np.array([1.0, -np.inf, 2.0], np.float32)).target_num_nonfinite == 1


def test_a_difference_too_small_for_its_square_is_seen() -> None:
    assert distance(np.zeros(3), np.array([0.0, 1e-200, 0.0])).num_different == 1


def test_complex_numbers_and_integers_are_compared() -> None:
    a = np.array([[1 + 2j, 3j]], np.complex64)
    found = distance(a, a + np.array([[0, 4j]], np.complex64))
    assert found.max_abs is not None
    assert (found.max_abs.index, found.max_abs.difference) == ((0, 1), 4.0)
    assert distance(np.array([1, 2]), np.array([1, 5])).num_different == 1


def test_arrays_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one shape.*\(2,\).*\(3,\)"):
        distance(np.zeros(2), np.zeros(3))


def test_a_statistic_is_never_presented_as_a_comparison_of_tensors() -> None:
    from jumar.comparison.measure.records import tensor_diff

    a = np.arange(6, dtype=np.float32)
    diff = tensor_diff("output.0", measure(tensor_row("output.0", a, 1), tensor_row("output.0", a + 1, 1)))
    assert diff.evidence == "statistics"
    assert (diff.cosine, diff.l2_relative, diff.max_abs, diff.max_relative) == (None, None, None, None)
    assert diff.l2_relative_at_least is not None
    assert "lower bounds" in diff.note
