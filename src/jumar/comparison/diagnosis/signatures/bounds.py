"""Guesses from the statistics of a tensor in a row and, where there is one, from its sketch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from jumar.comparison.diagnosis.results import Hypothesis, ranked
from jumar.comparison.diagnosis.signatures.pair import Context
from jumar.comparison.diagnosis.signatures.precision import is_product, product_of_rounded
from jumar.comparison.diagnosis.signatures.ratios import recognised
from jumar.recording.schema import TensorRow
from jumar.recording.sketch import relative_l2, unpack

EQUAL = 1e-5
"""Relative distance at which statistics of two devices are equal: they sum in another order."""
SAME_ELEMENTS = 1e-6
"""Relative distance of the sums of the same elements in another order."""
WEAKER = 0.85
"""Factor on the score of what four statistics alone say."""
CONFIRM = "Record this call's tensors on both sides (`--suspects`, then `jumar record --tensors-of`) and compare again."

Figures = tuple[float, float, float, float]


def hypotheses_from_rows(
    reference: TensorRow, target: TensorRow, context: Context | None = None
) -> tuple[Hypothesis, ...]:
    """Return guesses from minimum, maximum, mean, L2 norm and sketch; empty where these were not taken."""
    context = context or Context()
    of_reference, of_target = _figures(reference), _figures(target)
    one_broken = (reference.num_nan, reference.num_inf) != (target.num_nan, target.num_inf)
    if reference.shape != target.shape or of_reference is None or of_target is None or one_broken:
        return ()
    ratio, residual = _from_sketch(reference, target)
    found = list(_statistics(of_reference, of_target, reference.shape, context, residual))
    if residual is not None:
        found += _sketched(of_reference, of_target, reference.shape, context, ratio, residual)
        found += _rounded(reference, target, context)
    return ranked(found)


def _rounded(reference: TensorRow, target: TensorRow, context: Context) -> Iterator[Hypothesis]:
    """Yield the precision of a product, from the distance that the sketches estimate."""
    if reference.sketch is None or target.sketch is None or not reference.l2 or context.dtype != "float32":
        return
    if is_product(context.operator):
        yield from product_of_rounded(relative_l2(reference.sketch, target.sketch, reference.l2), 0.6)


def _figures(row: TensorRow) -> Figures | None:
    if row.minimum is None or row.maximum is None or row.mean is None or row.l2 is None:
        return None
    return row.minimum, row.maximum, row.mean, row.l2


def _from_sketch(reference: TensorRow, target: TensorRow) -> tuple[float, float | None]:
    """Return the ratio of the sketches and the share of their difference that it does not explain (None: unknown)."""
    if reference.sketch is None or target.sketch is None:
        return 1.0, None
    a, b = (unpack(sketch).astype(np.float64) for sketch in (reference.sketch, target.sketch))
    squares, apart = float(a @ a), float(((b - a) ** 2).sum())
    if squares == 0 or apart <= (EQUAL**2) * squares:
        return 1.0, None
    ratio = float(a @ b) / squares
    return ratio, float(((b - ratio * a) ** 2).sum()) / apart


def _near(first: float, second: float, size: float, allowed: float = EQUAL) -> bool:
    return abs(first - second) <= allowed * max(size, 1e-300)


def _have_same_elements(reference: Figures, target: Figures, num: int) -> bool:
    """Tell whether one tensor may be the other with its elements in other places; `num` is how many there are."""
    ends = max(abs(reference[0]), abs(reference[1]))
    sizes = (ends, ends, reference[3] / math.sqrt(num), reference[3])
    return all(_near(a, b, size, SAME_ELEMENTS) for a, b, size in zip(reference, target, sizes, strict=True))


def _statistics(
    reference: Figures, target: Figures, shape: tuple[int, ...], context: Context, residual: float | None
) -> Iterator[Hypothesis]:
    size = max(abs(reference[0]), abs(reference[1]))
    moved = [b - a for a, b in zip(reference[:3], target[:3], strict=True)]
    if math.prod(shape) > 1 and reference[0] != reference[1] and abs(moved[2]) > EQUAL * size:
        spread = max(moved) - min(moved)
        if spread <= 0.02 * abs(moved[2]):
            yield Hypothesis(
                kind="offset",
                statement=f"Minimum, maximum and mean all moved by {moved[2]:.4g}: a constant is added in one run.",
                confirm=CONFIRM,
                score=WEAKER,
                evidence={"minimum": moved[0], "maximum": moved[1], "mean": moved[2]},
            )
    if residual is None and reference[3] and target[3]:
        yield from _ratio_of_statistics(reference, target, shape, context)
    yield from _cut(reference, target)


def _ratio_of_statistics(
    reference: Figures, target: Figures, shape: tuple[int, ...], context: Context
) -> Iterator[Hypothesis]:
    ratio = target[3] / reference[3]
    size = max(abs(reference[0]), abs(reference[1]))
    straight = all(_near(b, ratio * a, size * ratio) for a, b in zip(reference[:3], target[:3], strict=True))
    turned = (
        _near(target[0], -ratio * reference[1], size * ratio)
        and _near(target[1], -ratio * reference[0], size * ratio)
        and _near(target[2], -ratio * reference[2], size * ratio)
    )
    if turned and not straight:
        yield _scaled(-ratio, shape, context, WEAKER)
    elif straight and abs(ratio - 1) > 10 * EQUAL:
        yield _scaled(ratio, shape, context, WEAKER)


def _scaled(ratio: float, shape: tuple[int, ...], context: Context, score: float) -> Hypothesis:
    names = recognised(ratio, shape, context, EQUAL)
    known = f", which is {names[0]}" if names else ""
    opposite = abs(ratio + 1) < 1e-3
    return Hypothesis(
        kind="sign" if opposite else "scale",
        statement="The target has the opposite sign: a sign is missing or doubled."
        if opposite
        else f"All that is known of the target is {ratio:.5g} times the reference{known}: a scale is missing or "
        "applied twice.",
        confirm=CONFIRM,
        score=score,
        evidence={"ratio": ratio, "recognised_as": list(names)},
    )


def _cut(reference: Figures, target: Figures) -> Iterator[Hypothesis]:
    low, high = _near(reference[0], target[0], abs(reference[0])), _near(reference[1], target[1], abs(reference[1]))
    if low != high and abs(target[0] if high else target[1]) < 0.9 * abs(reference[0] if high else reference[1]):
        which = "minimum" if high else "maximum"
        yield Hypothesis(
            kind="saturation",
            statement=f"Only the {which} is nearer to 0 in the target ({target[0 if high else 1]:.5g} against "
            f"{reference[0 if high else 1]:.5g}): values are cut off, or single great ones are lost.",
            confirm=CONFIRM,
            score=0.6,
            evidence={"reference": list(reference), "target": list(target)},
        )


def _sketched(
    reference: Figures, target: Figures, shape: tuple[int, ...], context: Context, ratio: float, residual: float
) -> Iterator[Hypothesis]:
    if abs(ratio) <= EQUAL:
        return  # nothing is left of the reference
    if residual <= 0.05 and abs(ratio - 1) > EQUAL:
        yield _scaled(ratio, shape, context, 0.96 * (1 - residual))
        return
    if _have_same_elements(reference, target, math.prod(shape)):
        yield Hypothesis(
            kind="layout",
            statement="Minimum, maximum, mean and L2 norm are equal, but the sketches differ: the same values in other "
            "places (a flip, a roll, a transposition).",
            confirm=CONFIRM,
            score=0.9,
            evidence={"statistics": list(reference), "sketch_unexplained": residual},
        )
