"""Sets of intervals agree with sets of whole numbers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jumar.timeline.spans import Spans

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 12)), max_size=12)


def spans(items: list[tuple[int, int]]) -> Spans:
    starts = np.array([start for start, _ in items], np.int64)
    return Spans.of(starts, starts + np.array([length for _, length in items], np.int64))


def points(items: list[tuple[int, int]]) -> set[int]:
    return {point for start, length in items for point in range(start, start + length)}


def points_of(found: Spans) -> set[int]:
    pairs = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    assert all(start < end for start, end in pairs)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(pairs))
    return {point for start, end in pairs for point in range(start, end)}


@given(INTERVALS, INTERVALS)
def test_sets_of_intervals_are_sets(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    one, other = spans(first), spans(second)
    assert points_of(one) == points(first)
    assert points_of(one | other) == points(first) | points(second)
    assert points_of(one & other) == points(first) & points(second)
    assert points_of(one - other) == points(first) - points(second)
    assert one.total_ns == len(points(first))


@given(INTERVALS, st.integers(-2, 45), st.integers(0, 20))
def test_a_window_holds_what_lies_in_it(items: list[tuple[int, int]], start: int, length: int) -> None:
    found = spans(items).clip(start, start + length)
    assert points_of(found) == points(items) & set(range(start, start + length))


@given(INTERVALS, st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 30)), min_size=1, max_size=6))
def test_windows_and_times_are_measured_without_cutting(
    items: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    starts = np.array([start for start, _ in windows], np.int64)
    ends = starts + np.array([length for _, length in windows], np.int64)
    found = spans(items)
    assert found.within(starts, ends).tolist() == [
        sum(start <= point < end for point in points(items)) for start, end in zip(starts, ends, strict=True)
    ]
    assert found.within(starts, ends).tolist() == [
        found.clip(int(start), int(end)).total_ns for start, end in zip(starts, ends, strict=True)
    ]
    assert found.hold(starts).tolist() == [int(start) in points(items) for start in starts]
