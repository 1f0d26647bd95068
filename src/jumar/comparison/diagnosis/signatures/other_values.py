"""Recognises values of another calculation: another step, other random numbers, another dimension to normalise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jumar.comparison.diagnosis.results import Hypothesis
from jumar.comparison.diagnosis.signatures.pair import Array, Floats, Pair

NEAR = 1e-6
"""Relative distance at which two arrays are one."""


def stale(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the target equals the previous step's tensor, and the reference does not."""
    known = (("target", pair.context.previous_target), ("reference", pair.context.previous_reference))
    for side, previous in known:
        if previous is None or previous.shape != pair.raw_b.shape:
            continue
        near = _distance(previous, pair.raw_b)
        moved = _distance(previous, pair.raw_a)
        if near <= NEAR < 0.1 * moved:
            yield Hypothesis(
                kind="stale",
                statement=f"The target's values are the {side}'s of the step before: a buffer is not updated "
                "(a missing synchronisation, a cached tensor, a skipped update).",
                confirm="Synchronise the device before this call, and look for an update that is left out.",
                score=0.99,
                evidence={"distance_to_previous": near, "distance_of_the_reference": moved},
            )
            return


def _distance(first: Array, second: Array) -> float:
    x, y = first.astype(np.float64), second.astype(np.float64)
    size = float(np.linalg.norm(y))
    return float(np.linalg.norm(x - y)) / size if size else float(np.linalg.norm(x))


def other_zeros(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when both sides drop other elements, and those that both keep are equal: another mask."""
    zero_a, zero_b = pair.a == 0, pair.b == 0
    only = int(np.count_nonzero(zero_a != zero_b))
    if pair.num < 64 or only < 0.02 * pair.num or not (zero_a & ~zero_b).any() or not (zero_b & ~zero_a).any():
        return
    both = ~zero_a & ~zero_b
    kept = float((pair.d[both] ** 2).sum()) / pair.squares
    if kept > 0.02:
        return
    yield Hypothesis(
        kind="randomness",
        statement=f"Both sides set other elements to zero ({float(zero_a.mean()):.0%} and {float(zero_b.mean()):.0%}) "
        "and agree where neither does: a different random mask (dropout), from another seed or generator.",
        confirm="Set dropout to 0, or one seed and one generator (CPU) on both sides, and compare again.",
        score=0.96,
        evidence={
            "zero_in_one_only": only,
            "zeros_reference": float(zero_a.mean()),
            "zeros_target": float(zero_b.mean()),
        },
    )


NEAR_ONE = 1e-3


def normalised(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the reference sums to one along a dimension and the target along another."""
    if pair.a.ndim < 2 or pair.num < 16 or float(pair.a.min()) < 0 or float(pair.b.min()) < 0:
        return
    reference, target = _axes(pair.a), _axes(pair.b)
    if not reference or not target or reference & target:
        return
    yield Hypothesis(
        kind="normalisation",
        statement=f"The reference sums to 1 along dimension {min(reference)}, the target along dimension "
        f"{min(target)}: a softmax over another dimension.",
        confirm="Make the `dim` of the softmax equal on both sides.",
        score=0.995,
        evidence={"reference_dimensions": [*sorted(reference)], "target_dimensions": [*sorted(target)]},
    )


def _axes(array: Floats) -> set[int]:
    return {
        axis
        for axis, size in enumerate(array.shape)
        if size > 1 and bool((np.abs(array.sum(axis=axis) - 1.0) < NEAR_ONE).all())
    }
