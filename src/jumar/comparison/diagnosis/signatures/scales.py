"""Recognises constant ratios and offsets, of the whole tensor or of each slice of a dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from jumar.comparison.diagnosis.results import Hypothesis, claimed
from jumar.comparison.diagnosis.signatures.pair import Floats, Pair, axis_word, energy
from jumar.comparison.diagnosis.signatures.ratios import recognised

FEW = 8
"""With fewer elements any ratio fits: only a number that is recognised counts."""
SLICED = 0.97
"""Factor on the score of a hypothesis with a parameter a slice: the plainer one goes first."""
BY_ROW = 0.96
MOSTLY = 0.5
"""Share of slices with a factor of 1 from which the others are a region, not a scale of slices."""
MOST_SHOWN = 5


def scales(pair: Pair) -> Iterator[Hypothesis]:
    """Yield hypotheses of a factor: one for the tensor, or one a slice of a dimension or a row."""
    if not pair.a_squares:
        return
    ratio = energy(pair.a, pair.b) / pair.a_squares
    share = pair.explained(ratio * pair.a, 1) if pair.num > 1 else 1.0
    uncertainty = math.sqrt(max(1.0 - share, 0.0) * pair.squares / pair.a_squares / max(pair.num - 1, 1))
    names = recognised(ratio, pair.a.shape, pair.context, uncertainty / max(abs(ratio), 1e-300))
    if (pair.num >= FEW or names) and _is_ratio(pair, ratio):
        yield _one_scale(ratio, share, names, few=pair.num < FEW)
    if pair.num >= FEW:
        yield from _sliced_scales(pair)


def _is_ratio(pair: Pair, ratio: float) -> bool:
    return abs(ratio - 1) > pair.rounding and abs(ratio) > pair.rounding


def _one_scale(ratio: float, share: float, names: list[str], *, few: bool) -> Hypothesis:
    if abs(ratio + 1) < 1e-4:
        statement = "The target is the reference with the opposite sign everywhere: a sign is missing or doubled."
        kind, confirm = "sign", "Look for a subtraction with its sides exchanged or a negated gradient."
    else:
        known = f", which is {names[0]}" if names else ""
        sign = " and the opposite sign" if ratio < 0 else ""
        statement = (
            f"The target is {_shown(ratio)} times the reference{sign}{known}: a scale is missing or applied twice."
        )
        kind, confirm = (
            "scale",
            f"Divide the target by {_shown(ratio)} and compare again; look for that factor in the code.",
        )
    return Hypothesis(
        kind=kind,  # type: ignore[arg-type]  # mypy widens the two words to str
        statement=statement,
        confirm=confirm,
        score=min(claimed(share), 0.7) if few else claimed(share),
        evidence={"ratio": ratio, "explained": share, "recognised_as": list(names)},
    )


def _shown(value: float) -> str:
    """Return enough digits to tell 1.01 from 1 and 0.9999 from 1."""
    digits = 6 if abs(abs(value) - 1) < 0.01 else 4
    return f"{value:.{digits}g}"


def _sliced_scales(pair: Pair) -> Iterator[Hypothesis]:
    for axis in range(pair.a.ndim):
        size = pair.a.shape[axis]
        rows = pair.a.ndim == 2 and axis == 0
        if size < 2 or size == pair.num or rows:
            continue
        others = tuple(i for i in range(pair.a.ndim) if i != axis)
        yield from _sliced_scale(pair, others, size, f"each slice of {axis_word(axis, pair.a.shape)}", by_row=False)
    if pair.a.ndim >= 2 and pair.a.shape[-1] > 2:
        rows = pair.num // pair.a.shape[-1]
        yield from _sliced_scale(pair, (pair.a.ndim - 1,), rows, "each row (last dimension)", by_row=True)


def _sliced_scale(
    pair: Pair, summed: tuple[int, ...], num_slices: int, what: str, *, by_row: bool
) -> Iterator[Hypothesis]:
    dots = (pair.a * pair.b).sum(axis=summed, keepdims=True)
    squares = (pair.a * pair.a).sum(axis=summed, keepdims=True)
    ratios = np.divide(dots, squares, out=np.ones_like(dots), where=squares > 0)
    share = pair.explained(ratios * pair.a, num_slices)
    spread = float(ratios.max() - ratios.min())
    unchanged = float(np.mean(np.abs(ratios - 1) <= 4 * pair.rounding))
    if spread <= 4 * pair.rounding or unchanged > MOSTLY:
        return
    shown: list[float] = [float(value) for value in ratios.reshape(-1)[:MOST_SHOWN]]
    hint = (
        "a normalisation with another epsilon, variance or axis"
        if by_row
        else "a scale by channel (of a normalisation, a quantisation) is missing or belongs to other channels"
    )
    yield Hypothesis(
        kind="normalisation" if by_row else "scale",
        statement=f"The target is the reference times a different factor in {what}, {ratios.min():.4g} to "
        f"{ratios.max():.4g}: {hint}.",
        confirm="Compare epsilon, axis and weight of the normalisation or quantisation on both sides.",
        score=claimed(share) * (BY_ROW if by_row else SLICED),
        evidence={"explained": share, "num_factors": num_slices, "first_factors": list(shown)},
    )


def offsets(pair: Pair) -> Iterator[Hypothesis]:
    """Yield hypotheses of an added constant: one for the tensor, or one a slice of a dimension."""
    if pair.num < FEW or _constant(pair.a):
        return
    offset = float(pair.d.mean())
    share = pair.explained(pair.a + offset, 1)
    yield Hypothesis(
        kind="offset",
        statement=f"The target is the reference plus {offset:.4g} in every element: a bias is missing or added twice, "
        "or a sum is accumulated in a narrow dtype.",
        confirm="Compare the bias and the accumulation dtype; run the operator in float32.",
        score=claimed(share),
        evidence={"offset": offset, "explained": share, "in_units_of_rms": offset / pair.rms if pair.rms else None},
    )
    for axis in range(pair.a.ndim):
        size = pair.a.shape[axis]
        if size < 2 or size == pair.num:
            continue
        others = tuple(i for i in range(pair.a.ndim) if i != axis)
        means = pair.d.mean(axis=others, keepdims=True)
        share = pair.explained(pair.a + means, size)
        yield Hypothesis(
            kind="offset",
            statement=f"The target is the reference plus a different constant in each slice of "
            f"{axis_word(axis, pair.a.shape)}: a bias by channel is missing, added twice or belongs to other channels.",
            confirm="Compare the bias, or the mean that a normalisation subtracts, on both sides.",
            score=claimed(share) * SLICED,
            evidence={
                "explained": share,
                "greatest_offset": float(np.abs(means).max()),
                "first_offsets": [float(value) for value in means.reshape(-1)[:MOST_SHOWN]],
            },
        )


def _constant(array: Floats) -> bool:
    """Return whether a tensor has one value: there a factor and an offset are the same."""
    return bool(array.size) and float(array.max()) == float(array.min())
