"""Figures of tensors that are built when looked at, and measures that are kept until a tensor is read again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recording_builder import tensor_row

from jumar.comparison.judge.loss_scaling import LossScaling, Measures
from jumar.comparison.measure.distances import Measure, measure
from jumar.comparison.measure.records import Shown, evidence_in, tensor_diff

ONES = np.ones((3, 4), np.float32)
MOVED = (ONES + np.eye(3, 4)).astype(np.float32)
WITH_NAN = np.where(np.eye(3, 4) > 0, np.nan, ONES).astype(np.float32)


def by_statistics(target: np.ndarray) -> Measure:
    return measure(tensor_row("input.0", ONES, 1), tensor_row("input.0", target, 2))


def by_values(target: np.ndarray) -> Measure:
    rows = tensor_row("input.0", ONES, 1), tensor_row("input.0", target, 2)
    return measure(*rows, (lambda _: ONES, lambda _: target))


@pytest.mark.parametrize(
    "found",
    [
        by_statistics(ONES),
        by_statistics(MOVED),
        by_statistics(WITH_NAN),
        by_statistics(ONES[:2]),
        by_statistics(ONES[:0]),
        by_values(MOVED),
    ],
    ids=["equal", "other values", "non-finite", "other shape", "no elements", "whole tensors"],
)
@pytest.mark.parametrize("error", [None, 0.25])
def test_what_is_shown_later_is_what_would_have_been_built_at_once(found: Measure, error: float | None) -> None:
    expected = (tensor_diff("input.0", found, error),)
    assert Shown([("input.0", found, error)]) == expected
    assert repr(Shown([("input.0", found, error)])) == repr(expected)
    assert hash(Shown([("input.0", found, error)])) == hash(expected)
    shown = Shown([("input.0", found, error)])
    assert evidence_in(shown) == evidence_in(expected)


def test_a_tensor_that_is_read_again_is_measured_once_and_anew_after_its_values_changed() -> None:
    measures = Measures(LossScaling((), ()))
    first, second = tensor_row("output.0", ONES, 1), tensor_row("output.0", MOVED, 2)
    written = measures.take(first, second, None)
    assert measures.take(replace(first, name="input.0"), replace(second, name="input.1"), None) is written
    in_place = measures.take(first, tensor_row("input.0", ONES, 2), None)
    assert (written.equal, in_place.equal) == (False, True)


def test_tensors_without_storage_numbers_are_measured_each_time() -> None:
    measures = Measures(LossScaling((), ()))
    rows = tensor_row("output.0", ONES, 0), tensor_row("output.0", MOVED, 0)
    assert measures.take(*rows, None) is not measures.take(*rows, None)
