"""What sums to one: a softmax or a normalisation over another dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jumar.accuracy.signatures.hypothesis import Hypothesis
from jumar.accuracy.signatures.pair import Floats, Pair

NEAR_ONE = 1e-3


def normalised(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the reference sums to one along a dimension and the target along another."""
    if pair.a.ndim < 2 or pair.num < 16 or float(pair.a.min()) < 0 or float(pair.b.min()) < 0:
        return
    mine, theirs = _axes(pair.a), _axes(pair.b)
    if not mine or not theirs or mine & theirs:
        return
    yield Hypothesis(
        kind="normalisation",
        statement=f"The reference sums to 1 along dimension {min(mine)}, the target along dimension {min(theirs)}: "
        "a softmax over another dimension.",
        confirm="Make the `dim` of the softmax equal on both sides.",
        score=0.995,
        evidence={"reference_dimensions": [*sorted(mine)], "target_dimensions": [*sorted(theirs)]},
    )


def _axes(array: Floats) -> set[int]:
    return {
        axis
        for axis, size in enumerate(array.shape)
        if size > 1 and bool((np.abs(array.sum(axis=axis) - 1.0) < NEAR_ONE).all())
    }
