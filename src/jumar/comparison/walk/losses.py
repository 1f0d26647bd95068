"""Compares the losses of two runs, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from jumar.comparison.measure.tolerance import FLOAT32_EPSILON
from jumar.comparison.model.results import LossPair

FIRST_STEP_EPSILONS = 1024.0
"""Tolerance of the first loss, in epsilons of float32: thousands of roundings, averaged."""

COARSE_EPSILONS = 4.0
"""The same in epsilons of a half type, which rounds every operator's output but averages in float32."""

GROWTH = 8.0
"""Training amplifies rounding: by up to this factor a step (measured on healthy pairs with AdamW: 2 to 5)."""

MISALIGNED = 0.01
"""Relative difference from which two trainings count as misaligned (Ascend's accuracy guide: 1 %)."""


def compare_losses(
    reference: Iterable[tuple[int, float]], target: Iterable[tuple[int, float]], rank: int, coarsest: float
) -> list[LossPair]:
    """Return a pair for each step that either side has; `coarsest` is the coarsest epsilon the runs calculate in."""
    of_reference, of_target = dict(reference), dict(target)
    first = min({*of_reference} & {*of_target}, default=0)
    return [
        _pair(step, rank, of_reference.get(step), of_target.get(step), loss_tolerance(step - first, coarsest))
        for step in sorted({*of_reference, *of_target})
    ]


def unjudged_after(losses: Iterable[LossPair], last: int | None) -> list[LossPair]:
    """Return the pairs. Those after step `last` are not judged, because the runs are one update apart from there on.
    None judges all pairs."""
    return [pair if last is None or pair.step <= last else replace(pair, agrees=None) for pair in losses]


def loss_tolerance(steps: int, coarsest: float) -> float:
    """Return the relative difference allowed `steps` after the first common step."""
    coarse = COARSE_EPSILONS * coarsest if coarsest > FLOAT32_EPSILON else 0.0
    at_first = max(FIRST_STEP_EPSILONS * FLOAT32_EPSILON, coarse)
    return min(max(MISALIGNED, at_first), at_first * GROWTH ** min(max(steps, 0), 50))


def _pair(step: int, rank: int, of_reference: float | None, of_target: float | None, tolerance: float) -> LossPair:
    error, agrees = None, None
    if of_reference is not None and of_target is not None:
        if math.isfinite(of_reference) and math.isfinite(of_target):
            size = max(abs(of_reference), abs(of_target))
            error = abs(of_target - of_reference) / size if size else 0.0
            agrees = error <= tolerance
        else:
            agrees = str(of_reference) == str(of_target)
    return LossPair(
        step=step, rank=rank, reference=of_reference, target=of_target, error=error, tolerance=tolerance, agrees=agrees
    )


def first_disagreement(losses: Iterable[LossPair]) -> LossPair | None:
    """Return the first step whose losses disagree, or None."""
    return next((pair for pair in losses if pair.agrees is False), None)
