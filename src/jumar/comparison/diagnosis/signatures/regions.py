"""Recognises where a difference is: tails, tiles, single slices, periodic blocks, shifts by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.comparison.diagnosis.results import Hypothesis, claimed
from jumar.comparison.diagnosis.signatures.pair import Pair, axis_word

Flags = npt.NDArray[np.bool_]

FILLED = 0.5
"""Share of a region's elements that must differ: scattered elements make no region."""
TILES = (256, 128, 64, 32, 16, 8)
"""Sizes of the tiles that kernels work in."""
MAX_SHARE = 0.75
"""A region greater than this share of the tensor is no region."""
REGION_SCORE = 0.9
"""Where a difference is says less than a transformation that reproduces it."""
SCATTERED = 0.65
"""Factor on the score of slices that are neither together nor at equal distances."""
MOST_PERIOD = 512


@dataclass(frozen=True, slots=True)
class Extent:
    """The indices of one dimension at which anything differs."""

    axis: int
    size: int
    first: int
    last: int
    num: int
    period: int = 0

    @property
    def whole(self) -> bool:
        """Whether every index differs somewhere."""
        return self.num == self.size

    @property
    def contiguous(self) -> bool:
        """Whether the indices are one interval."""
        return self.last - self.first + 1 == self.num


def regions(pair: Pair) -> Iterator[Hypothesis]:
    """Yield what the places of the differing elements point to, and shifts of slices by one."""
    if pair.num < 16:
        return
    yield from _shifts(pair)
    bad = pair.differs()
    num_bad = int(np.count_nonzero(bad))
    if not 0 < num_bad <= MAX_SHARE * pair.num:
        return
    extents = [_extent(bad, axis) for axis in range(bad.ndim)]
    box = int(np.prod([extent.num for extent in extents]))
    filled = num_bad / box
    energy = float((pair.d[bad] ** 2).sum()) / pair.squares
    narrowed = [extent for extent in extents if not extent.whole]
    if filled < FILLED or not narrowed:
        return
    yield _region(pair, narrowed, filled, energy * min(1.0, 0.5 + filled), num_bad)


def _extent(bad: Flags, axis: int) -> Extent:
    others = tuple(i for i in range(bad.ndim) if i != axis)
    flags: Flags = np.asarray(bad.any(axis=others))
    places = np.flatnonzero(flags)
    return Extent(axis, flags.size, int(places[0]), int(places[-1]), places.size, _period(flags))


def _period(flags: Flags) -> int:
    """Return the smallest period with which the flags repeat at least twice, or 0."""
    if flags.all():
        return 0
    for period in range(2, min(flags.size // 2, MOST_PERIOD) + 1):
        if bool((flags[period:] == flags[:-period]).all()):
            return period
    return 0


def _region(pair: Pair, narrowed: list[Extent], filled: float, score: float, num_bad: int) -> Hypothesis:
    one = narrowed[0]
    if len(narrowed) == 1 and one.num == 1:
        what, cause, kind = _single(pair, one)
    elif len(narrowed) == 1 and one.period:
        what = f"in every {one.period}th block of {axis_word(one.axis, pair.a.shape)}"
        cause, kind = "a kernel's work is shared out in blocks, and some of them go wrong", "tiling"
    elif all(extent.contiguous for extent in narrowed):
        what, cause, kind = _interval(pair, narrowed)
    else:
        what = ", ".join(f"at {e.num} of {e.size} indices of dimension {e.axis}" for e in narrowed)
        cause, kind = (
            "slices with something in common (rows of a table that were used, a group, masked samples)",
            "index",
        )
        score *= SCATTERED
    return Hypothesis(
        kind=kind,  # type: ignore[arg-type]  # mypy widens the words to str
        statement=f"The two sides differ only {what}: {cause}.",
        confirm="Run the operator with sizes that are multiples of the tile, or pad the input, and compare again.",
        score=REGION_SCORE * score,
        evidence={
            "differing_elements": num_bad,
            "share_of_elements": num_bad / pair.num,
            "filled": filled,
            "region": [[e.axis, e.first, e.last] for e in narrowed],
        },
    )


def _single(pair: Pair, one: Extent) -> tuple[str, str, str]:
    what = f"at index {one.first} of {axis_word(one.axis, pair.a.shape)}"
    if one.first in (0, one.size - 1):
        return what, "the first or last slice is treated in another way (an index off by one, padding)", "index"
    return what, "one slice is wrong (an index, one sample, one channel)", "index"


def _interval(pair: Pair, narrowed: list[Extent]) -> tuple[str, str, str]:
    what = " and ".join(f"at {e.first} to {e.last} of {axis_word(e.axis, pair.a.shape)}" for e in narrowed)
    tails = [e for e in narrowed if e.last == e.size - 1 and e.first > 0]
    if len(narrowed) == 1 and tails:
        tile = next((t for t in TILES if tails[0].first % t == 0), 0)
        tile_word = f"; it begins at a multiple of {tile}" if tile else ""
        return (
            f"in the last {tails[0].num} of {axis_word(tails[0].axis, pair.a.shape)}",
            f"the tail that does not fill a tile, or padding, goes wrong{tile_word}",
            "tiling",
        )
    tile = next((t for t in TILES if all(e.first % t == 0 and e.num % t == 0 for e in narrowed)), 0)
    return what, f"one tile{f' (multiples of {tile})' if tile else ''} of the kernel's work goes wrong", "tiling"


def _shifts(pair: Pair) -> Iterator[Hypothesis]:
    """Yield slices moved by one without wrapping round: the edge has other values."""
    for axis, size in enumerate(pair.a.shape):
        if size < 4:
            continue
        for by in (1, -1):
            moved = pair.b.copy()
            source, place = (slice(None, -1), slice(1, None)) if by == 1 else (slice(1, None), slice(None, -1))
            at = tuple(place if i == axis else slice(None) for i in range(pair.a.ndim))
            moved[at] = pair.a[tuple(source if i == axis else slice(None) for i in range(pair.a.ndim))]
            share = pair.explained(moved)
            yield Hypothesis(
                kind="index",
                statement=f"The target's slices of {axis_word(axis, pair.a.shape)} are the reference's, moved by {by}: "
                "an index is off by one.",
                confirm=f"Compare index i of the target with i{'-' if by == 1 else '+'}1 of the reference; look for a "
                "range, a shift of labels or positions.",
                score=claimed(share) * 0.99,
                evidence={"axis": axis, "by": by, "explained": share},
            )
