"""Recognises the same values in other places: flips, rolls, transpositions, other slices, other rows of a table.

Only looked for where both sides hold the same values (sorted, they are equal but for noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import numpy.typing as npt

from jumar.comparison.diagnosis.results import Hypothesis, claimed
from jumar.comparison.diagnosis.signatures.pair import Array, Floats, Pair, axis_word, energy

SAME_VALUES = 0.02
"""Share of the difference's energy that may be left when both sides are sorted."""
EQUAL_VALUES = 64.0
"""Multiples of float32's epsilon: sorted values this near to each other are the same, not just alike."""
CLAIMED = 0.65
"""Score from which a permutation is the one: nine tenths of the energy."""
MAX_DIMS = 4
"""Reinterpretations of more dimensions than this are not tried: 5! = 120 passes over the tensor."""
MAX_FACTORS = 12

NAMES: dict[tuple[int, ...], str] = {
    (0, 2, 3, 1): "NHWC values read as NCHW",
    (0, 3, 1, 2): "NCHW values read as NHWC",
}


def layouts(pair: Pair) -> Iterator[Hypothesis]:
    """Yield the permutation that turns the reference into the target, the plainest that explains it."""
    if pair.num < 4 or not _same_values(pair):
        return
    for named in (_flips, _rolls, _reinterpretations, _factors, _slice_orders):
        best = max(named(pair), key=lambda one: one.score, default=None)
        if best is not None and best.score >= CLAIMED:
            yield best
            return
    if _equal_values(pair):
        yield _hypothesis("holds the same values in another order, which is no flip, roll or transposition", 0.9975)


def _same_values(pair: Pair) -> bool:
    rest = np.sort(pair.b, axis=None) - np.sort(pair.a, axis=None)
    return energy(rest) <= SAME_VALUES * pair.squares


def _equal_values(pair: Pair) -> bool:
    rest = np.sort(pair.b, axis=None) - np.sort(pair.a, axis=None)
    allowed = EQUAL_VALUES * 2.0**-23 * math.sqrt(pair.a_squares)
    return math.sqrt(energy(rest)) <= allowed < 0.1 * math.sqrt(pair.squares)


def _hypothesis(what: str, share: float, **evidence: object) -> Hypothesis:
    return Hypothesis(
        kind="layout",
        statement=f"The target {what}: the layout of a tensor is taken for another one.",
        confirm="Undo the permutation on the target and compare again; look for transpose, view, flip and contiguous.",
        score=claimed(share),
        evidence={"explained": share, **evidence},  # type: ignore[dict-item]  # the callers give numbers and lists
    )


def _flips(pair: Pair) -> Iterator[Hypothesis]:
    axes = [axis for axis, size in enumerate(pair.a.shape) if size > 1]
    groups = (
        [(axis,) for axis in axes]
        + ([tuple(axes)] if len(axes) > 1 else [])
        + ([(axes[-2], axes[-1])] if len(axes) > 2 else [])
    )
    for group in groups:
        share = pair.explained(np.flip(pair.a, group))
        where = " and ".join(axis_word(axis, pair.a.shape) for axis in group)
        yield _hypothesis(f"is the reference flipped along {where}", share, axes=list(group))


def _rolls(pair: Pair) -> Iterator[Hypothesis]:
    for axis, size in enumerate(pair.a.shape):
        if size < 2:
            continue
        shift = _best_shift(_projected(pair.a, axis), _projected(pair.b, axis))
        if shift == 0:
            continue
        moved = np.roll(pair.a, shift, axis)
        share = pair.explained(moved) if _wraps(pair, moved, axis, shift) else 0.0
        by = shift if shift <= size // 2 else shift - size
        what = "with its halves exchanged" if 2 * shift == size else f"rolled by {by}"
        yield _hypothesis(f"is the reference {what} along {axis_word(axis, pair.a.shape)}", share, axis=axis, shift=by)


def _wraps(pair: Pair, moved: Floats, axis: int, shift: int) -> bool:
    """Return whether the slices that came round the edge fit, too; where they do not, it is a shift."""
    size = pair.a.shape[axis]
    edge = slice(0, shift) if 2 * shift <= size else slice(shift, size)
    at = tuple(edge if i == axis else slice(None) for i in range(pair.a.ndim))
    rest, apart = pair.b[at] - moved[at], pair.d[at]
    return energy(rest) <= 0.5 * energy(apart)


def _projected(array: Floats, axis: int) -> Floats:
    """Return one number a slice of `axis`: the slice against fixed random numbers."""
    rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    projected: Floats = np.einsum("ij,j->i", rows, np.random.default_rng(1).standard_normal(rows.shape[1]))
    return projected


def _best_shift(first: Floats, second: Floats) -> int:
    """Return the shift by which `first` correlates best with `second` (circular, by FFT)."""
    x, y = first - first.mean(), second - second.mean()
    correlation = np.fft.irfft(np.fft.rfft(y) * np.conj(np.fft.rfft(x)), n=x.size)
    return int(np.argmax(correlation))


def _reinterpretations(pair: Pair) -> Iterator[Hypothesis]:
    """Yield transpositions, read back in the shape of the tensor: true ones, and a memory format taken for another."""
    shape = pair.a.shape
    if not 2 <= pair.a.ndim <= MAX_DIMS:
        return
    for order in permutations(range(pair.a.ndim)):
        if order == tuple(range(pair.a.ndim)) or _trivial(order, shape):
            continue
        moved = pair.a.transpose(order)
        share = pair.explained(moved.reshape(shape))
        swapped = [axis for axis in range(pair.a.ndim) if order[axis] != axis]
        if moved.shape == shape and len(swapped) == 2:
            what = f"is the reference with dimensions {swapped[0]} and {swapped[1]} exchanged (transposed)"
        else:
            name = NAMES.get(order, f"dimensions in the order {', '.join(map(str, order))}")
            what = f"holds the reference's values in another memory format ({name})"
        yield _hypothesis(what, share, order=list(order))


def _trivial(order: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether the order moves dimensions of size 1 only."""
    real = [axis for axis in order if shape[axis] > 1]
    return real == sorted(real)


def _factors(pair: Pair) -> Iterator[Hypothesis]:
    """Yield exchanges within one dimension taken apart into two: heads, interleaved halves."""
    for axis, size in enumerate(pair.a.shape):
        divisors = [f for f in range(2, size) if size % f == 0]
        shown = (
            divisors if len(divisors) <= MAX_FACTORS else divisors[: MAX_FACTORS // 2] + divisors[-MAX_FACTORS // 2 :]
        )
        for f in shown:
            split = (*pair.a.shape[:axis], f, size // f, *pair.a.shape[axis + 1 :])
            moved = pair.a.reshape(split).swapaxes(axis, axis + 1).reshape(pair.a.shape)
            share = pair.explained(moved)
            what = f"has {axis_word(axis, pair.a.shape)} as {size // f}×{f} where the reference has {f}×{size // f}"
            if 2 in (f, size // f):
                what += " (halves against interleaved pairs, as in two forms of rotary embedding)"
            yield _hypothesis(what, share, axis=axis, factors=[f, size // f])


def _slice_orders(pair: Pair) -> Iterator[Hypothesis]:
    """Yield another order of the slices of one dimension: the batch, heads, channels."""
    for axis, size in enumerate(pair.a.shape):
        if size < 3 or size == pair.num:
            continue
        order = _matching(_projected(pair.a, axis), _projected(pair.b, axis))
        if bool((order == np.arange(size)).all()):
            continue
        share = pair.explained(np.take(pair.a, order, axis))
        name = "the batch is in another order" if axis == 0 else "channels or heads are in another order"
        yield _hypothesis(
            f"has the reference's slices of {axis_word(axis, pair.a.shape)} in another order ({name})",
            share * 0.99,
            axis=axis,
            order=[int(index) for index in order[:16]],
        )


def _matching(first: Floats, second: Floats) -> npt.NDArray[np.intp]:
    """Return for each slice of the target the slice of the reference with the same rank among the projections."""
    order = np.empty(first.size, dtype=np.intp)
    order[np.argsort(second, kind="stable")] = np.argsort(first, kind="stable")
    return order


OFF_BY = (1, -1)


def lookups(pair: Pair) -> Iterator[Hypothesis]:
    """Yield a hypothesis when the target has the rows beside those that the indices name (an embedding, a gather)."""
    tables = [array for array in pair.context.inputs if _is_table(array, pair)]
    indices = [array for array in pair.context.inputs if _is_index(array, pair)]
    for table in tables:
        for index in indices:
            for by in OFF_BY:
                shifted = index.astype(np.int64) + by
                if shifted.size and int(index.min()) >= 0 and int(index.max()) < table.shape[0]:
                    rows = np.clip(shifted, 0, table.shape[0] - 1)
                    share = pair.explained(table.astype(np.float64)[rows].reshape(pair.a.shape))
                    yield _off_by(by, share)


def _is_table(array: Array, pair: Pair) -> bool:
    return array.ndim == 2 and array.dtype.kind == "f" and array.shape[1] == pair.a.shape[-1]


def _is_index(array: Array, pair: Pair) -> bool:
    return array.dtype.kind in "iu" and array.size * pair.a.shape[-1] == pair.a.size


def _off_by(by: int, share: float) -> Hypothesis:
    return Hypothesis(
        kind="index",
        statement=f"The target's rows are those {'after' if by > 0 else 'before'} the ones that the indices name: "
        "an index is off by one.",
        confirm="Compare how indices are counted on both sides (from 0 or from 1, an offset, padding_idx).",
        score=claimed(share) * 0.999,
        evidence={"off_by": by, "explained": share},
    )
