"""The gate lets a gain through when the whole interval clears it, and noise practically never."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune_builders import gain

from jumar.tune.model.gate import Gain, gain_of, improvement_percent, interval_rank, median_interval


@pytest.mark.parametrize(
    ("count", "rank"), [(0, 0), (5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (50, 18), (100, 40)]
)
def test_the_interval_of_the_median_has_the_tabled_ranks(count, rank):
    """Dixon and Massey, *Introduction to Statistical Analysis*, table of confidence intervals for the median, 95 %."""
    assert interval_rank(count, 0.95) == rank


def test_too_few_values_say_nothing():
    assert median_interval([1.0] * 5) == (-math.inf, math.inf)
    assert not gain_of([2.0] * 5, [1.0] * 5).clears(0.0)


def test_the_interval_covers_the_median_as_often_as_it_says():
    draw = random.Random(0)
    covered = 0
    for _ in range(1000):
        low, high = median_interval([draw.lognormvariate(0, 1) * draw.choice([1, 1, 50]) - 1.2 for _ in range(15)])
        covered += low <= MEDIAN <= high
    assert covered >= 930


def _median() -> float:
    draw = random.Random(1)
    values = sorted(draw.lognormvariate(0, 1) * draw.choice([1, 1, 50]) - 1.2 for _ in range(100_001))
    return values[50_000]


MEDIAN = _median()


def test_noise_alone_clears_the_gate_less_often_than_the_confidence_allows():
    draw = random.Random(2)
    cleared = 0
    for _ in range(1000):
        before, after = ([100 * math.exp(draw.gauss(0, 0.1)) for _ in range(25)] for _ in range(2))
        cleared += gain_of(before, after).clears(0.0)
    assert cleared <= 35  # one side of a 95 % interval: 25 expected at most


def test_outliers_of_one_side_do_not_make_a_gain():
    before, after = [100.0] * 30, [100.0] * 30
    before[::5] = [5000.0] * 6
    assert gain_of(before, after).ratio == 1.0
    assert not gain_of(before, after).clears(0.02)


def test_a_drift_that_both_sides_share_hides_no_gain():
    before = [100.0 * (1 + pair) for pair in range(30)]
    after = [value / 1.1 for value in before]
    assert gain_of(before, after).ratio_low == pytest.approx(1.1)


def test_a_gain_is_judged_by_its_lower_bound():
    assert gain(1.05, spread=0.01).clears(0.02)
    assert not gain(1.05, spread=0.5).clears(0.02)
    assert not gain(1.01).clears(0.02)


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=40))
def test_a_gain_survives_json_and_lies_within_its_interval(pairs):
    measured = gain_of([before for before, _ in pairs], [after for _, after in pairs], 3, 2)
    assert Gain.from_json(measured.to_json()) == measured
    assert measured.ratio_low <= measured.ratio <= measured.ratio_high
    assert "NaN" not in str(measured.to_json())


@pytest.mark.parametrize(("before", "after"), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_what_are_no_pairs_of_times_is_refused(before, after):
    with pytest.raises(ValueError, match="paired times"):
        gain_of(before, after)


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [(58.781, 26.876, 118.71), (16.71, 15.71, 6.37), (134, 99, 35.35), (72.055, 72.046, 0.01)],
)
def test_improvement_is_over_the_time_after_as_in_the_vendors_own_examples(before, after, percent):
    assert round(improvement_percent(before, after), 2) == percent
