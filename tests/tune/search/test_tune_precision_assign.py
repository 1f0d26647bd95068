"""Which unit gets which precision."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.tune.plan.lowering.lowering import LowPrecision
from jumar.tune.search.precision.assign import Assigner, Assignment, Costs

SHARES = st.lists(st.floats(0.01, 1), min_size=1, max_size=6)
ERRORS = st.floats(0, 1)


def additive(costs: Costs, factor: float = 1.0) -> Assigner:
    """The graph errs as predicted, times a factor."""
    return Assigner(costs, lambda assignment: factor * costs.predicted(assignment))


def costs_of(shares: list[float], errors: list[tuple[float, float]]) -> Costs:
    """Int8 saves 0.6 of a unit's share, bf16 0.4."""
    return Costs(
        savings=[{"int8": 0.6 * share, "bf16": 0.4 * share} for share in shares],
        errors=[{"int8": int8, "bf16": bf16} for int8, bf16 in errors],
    )


def test_everything_is_lowered_where_the_error_allows_it() -> None:
    costs = costs_of([0.5, 0.5], [(0.1, 0.01), (0.1, 0.01)])
    assert additive(costs).within(1.0) == ("int8", "int8")


def test_the_unit_that_errs_most_for_its_time_is_moved_first() -> None:
    costs = costs_of([0.5, 0.5], [(0.3, 0.01), (0.001, 0.0001)])
    assert additive(costs).within(0.05) == ("bf16", "int8")


def test_nothing_is_left_where_no_precision_is_within() -> None:
    costs = costs_of([0.5, 0.5], [(0.3, 0.2), (0.3, 0.2)])
    assert additive(costs).within(0.01) is None


def test_a_unit_that_overflows_alone_is_never_lowered_so() -> None:
    costs = costs_of([0.5, 0.5], [(math.inf, 0.01), (0.01, 0.01)])
    assert additive(costs).within(1.0) == ("bf16", "int8")


def test_errors_that_no_unit_shows_alone_still_come_to_an_end() -> None:
    costs = costs_of([0.7, 0.3], [(0.0, 0.0), (0.0, 0.0)])

    def together(assignment: Assignment) -> float:
        return 1.0 if all(assignment) else 0.0

    assert Assigner(costs, together).within(0.5) == ("int8", None)


@settings(derandomize=True, max_examples=60)
@given(data=st.data(), shares=SHARES, target=st.floats(0.001, 1), factor=st.floats(0.3, 3))
def test_what_is_found_is_within_the_target_and_near_the_best(
    data: st.DataObject, shares: list[float], target: float, factor: float
) -> None:
    errors = [(int8 := data.draw(ERRORS), int8 * data.draw(ERRORS)) for _ in shares]
    costs = costs_of(shares, errors)
    assigner = additive(costs, factor)
    found = assigner.within(target)
    choices: tuple[LowPrecision | None, ...] = (None, "bf16", "int8")
    every = itertools.product(choices, repeat=len(shares))
    best = max((costs.saving(one) for one in every if assigner.error(one) <= target), default=0.0)
    saved = 0.0 if found is None else costs.saving(found)
    assert found is None or assigner.error(found) <= target
    assert saved >= best / 2 - 1e-9 or best - saved <= max(0.6 * share for share in shares) + 1e-9
