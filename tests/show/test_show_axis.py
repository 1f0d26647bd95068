from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.show.views.axis import linear_axis, log_axis

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)


def test_ticks_are_at_round_numbers_around_the_data() -> None:
    axis = linear_axis([0.35, 2.31])
    assert (axis.ticks, axis.labels) == ((0.0, 0.5, 1.0, 1.5, 2.0, 2.5), ("0", "0.5", "1.0", "1.5", "2.0", "2.5"))


def test_a_tight_axis_ends_at_the_data_and_has_its_ticks_inside() -> None:
    axis = linear_axis([0, 59], tight=True, whole=True)
    assert (axis.low, axis.high, axis.ticks) == (0, 59, (0, 20, 40))


def test_steps_have_no_fractional_ticks() -> None:
    assert linear_axis([0, 1, 2], tight=True, whole=True).labels == ("0", "1", "2")


def test_a_constant_runs_through_the_middle() -> None:
    assert linear_axis([3.0, 3.0], tight=True).position(3.0) == pytest.approx(0.5)


def test_labels_of_a_narrow_range_differ() -> None:
    axis = linear_axis([1.0000001, 1.0000004])
    assert len(set(axis.labels)) == len(axis.labels) >= 3


def test_a_log_axis_over_many_decades_has_ticks_at_powers_of_ten() -> None:
    assert log_axis([1e-9, 0.5]).labels == ("1e-9", "1e-7", "1e-5", "0.001", "0.1")


def test_a_log_axis_over_one_decade_has_ticks_at_one_two_and_five() -> None:
    assert log_axis([0.012, 0.4]).ticks == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def test_a_log_axis_puts_equal_ratios_at_equal_distances() -> None:
    axis = log_axis([1, 100])
    assert axis.position(10) - axis.position(1) == pytest.approx(axis.position(100) - axis.position(10))


@given(st.lists(finite, min_size=1, max_size=5), st.booleans(), st.booleans())
def test_every_value_lies_on_a_linear_axis_with_ordered_ticks(values: list[float], tight: bool, whole: bool) -> None:
    axis = linear_axis(values, tight=tight, whole=whole)
    positions = [axis.position(value) for value in sorted(values)]
    assert axis.low < axis.high
    assert positions == sorted(positions)
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert len(axis.ticks) == len(axis.labels) <= 12


@given(st.lists(positive, min_size=1, max_size=5))
def test_every_positive_value_lies_on_a_log_axis(values: list[float]) -> None:
    axis = log_axis(values)
    positions = [axis.position(value) for value in sorted(values)]
    assert 0 < axis.low < axis.high
    assert positions == sorted(positions)
    assert 1 <= len(axis.ticks) == len(axis.labels) <= 12


@pytest.mark.parametrize("value", [0.0, 5e-324, sys.float_info.max, -sys.float_info.max])
def test_the_ends_of_the_floats_have_an_axis(value: float) -> None:
    assert 0 <= linear_axis([value]).position(value) <= 1
