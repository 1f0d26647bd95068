"""`Arrivals`: the collectives of several ranks, matched call by call, on one clock.

Calls match by group, step and place: the k-th call of a group in a step is the same on all its ranks. Clocks are
aligned by the ends of calls that all ranks end together: a rank's offset is the median difference of its ends from the
first rank's. What is left of the differences is the uncertainty of every statement about who came first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jumar.timeline.collectives import POINT_TO_POINT, SYNCHRONISING, Collectives
from jumar.timeline.spans import Spans

Numbers = npt.NDArray[np.float64]
Window = tuple[str, int]
"""(group, step)"""
LEAST_CALLS = 3
"""Calls that two ranks must have in common before their clocks are compared."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Ranks of one group that do not call the same things in a step."""

    group: str
    step: int
    place: int
    """Number of the first call that differs, from 0."""
    called: Mapping[str, Sequence[int]]
    """What is called there -> the ranks; `nothing` for ranks without a further call."""


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Matched calls, m of them, of n ranks. Times in milliseconds."""

    ranks: Sequence[int]
    operations: Sequence[str]
    """What each matched call is."""
    steps: Sequence[int]
    """The step of each matched call."""
    starts_ms: Numbers
    """Shape (n, m): when each rank began the call, on the first rank's clock; NaN where it has no part in it."""
    uncertain_ms: float
    """The median distance of aligned ends from each other: differences below it say nothing."""
    mismatches: Sequence[Mismatch]
    num_calls: int
    """Calls of all ranks between all ranks of a group, in steps; the matched ones are those of `starts_ms`."""

    @property
    def num_matched(self) -> int:
        """Calls of all ranks that have a partner."""
        return int((~np.isnan(self.starts_ms)).sum())

    @property
    def late_ms(self) -> Numbers:
        """Shape (n, m): how long after the first rank each rank began the call; NaN where it has no part in it."""
        return np.asarray(self.starts_ms - np.nanmin(self.starts_ms, axis=0))

    @cached_property
    def last(self) -> tuple[npt.NDArray[np.int64], Numbers, Numbers]:
        """For each call the row of the rank that came last, when the one before it came, and when it came itself."""
        starts = np.where(np.isnan(self.starts_ms), -np.inf, self.starts_ms)
        order = np.sort(starts, axis=0)
        return np.argmax(starts, axis=0), order[-2], order[-1]

    def caused_ms(self, row: int, step: int) -> float:
        """Return how long calls of a step could not begin because of this rank alone: each moment counts once."""
        rows, before, own = self.last
        mine = (rows == row) & (np.array(self.steps) == step)
        starts, ends = ((column[mine] * 1e6).astype(np.int64) for column in (before, own))
        return Spans.of(starts, ends).total_ns / 1e6


def arrivals(ranks: Sequence[Collectives]) -> Arrivals | None:
    """Return the matched calls of several ranks; None where fewer than two have calls in common."""
    windows = [_windows(one) for one in ranks]
    matched, mismatches = _matched(ranks, windows)
    if not matched:
        return None
    columns = [(window, number) for window, length in matched.items() for number in range(length)]
    starts, ends = (_matrix(ranks, windows, columns, which) for which in ("starts_ns", "ends_ns"))
    operations = [_word(ranks, windows, *column) for column in columns]
    offsets, left = _offsets(ends[:, [word in SYNCHRONISING for word in operations]])
    used = np.flatnonzero(~np.isnan(offsets)).tolist()
    aligned = starts[used] - offsets[used][:, None]
    common = np.flatnonzero((~np.isnan(aligned)).sum(axis=0) > 1)
    if not len(common):
        return None
    aligned = aligned[:, common]
    return Arrivals(
        ranks=[ranks[index].rank for index in used],
        operations=[operations[column] for column in common],
        steps=[columns[column][0][1] for column in common],
        starts_ms=aligned,
        uncertain_ms=left,
        mismatches=mismatches,
        num_calls=sum(len(indices) for one in windows for indices in one.values()),
    )


def _windows(calls: Collectives) -> dict[Window, list[int]]:
    """Return the calls between all ranks of a group by group and step; calls outside of steps are left out."""
    found: dict[Window, list[int]] = defaultdict(list)
    for index, (operation, group, step) in enumerate(
        zip(calls.operations, calls.groups, calls.steps.tolist(), strict=True)
    ):
        if operation not in POINT_TO_POINT and step >= 0:
            found[group, step].append(index)
    return found


def _matched(
    ranks: Sequence[Collectives], windows: Sequence[Mapping[Window, list[int]]]
) -> tuple[dict[Window, int], list[Mismatch]]:
    """Return how many calls match in each window from its begin on, and where named groups differ.

    A rank's first and last step may be cut, and equal calls may begin in another order: neither is a difference.
    """
    members: dict[Window, list[int]] = defaultdict(list)
    for index, one in enumerate(windows):
        for window in one:
            members[window].append(index)
    whole = [set(np.unique(one.steps[one.steps >= 0])[1:-1].tolist()) for one in ranks]
    matched, mismatches = {}, []
    for window, inside in members.items():
        called = defaultdict(list)
        for index in inside:
            called[tuple(ranks[index].operations[call] for call in windows[index][window])].append(ranks[index].rank)
        first, *others = called
        place = min((_first_difference(first, other) for other in others), default=len(first))
        if len(inside) > 1 and place:
            matched[window] = place
        differ = any(Counter(other) != Counter(first) for other in others)
        if window[0] and differ and all(window[1] in whole[index] for index in inside):
            mismatches.append(Mismatch(*window, place, _called(called, place)))
    return matched, mismatches


def _first_difference(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def _called(sequences: Mapping[tuple[str, ...], Sequence[int]], place: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for words, ranks in sequences.items():
        found[words[place] if place < len(words) else "nothing"] += ranks
    return dict(found)


def _word(
    ranks: Sequence[Collectives], windows: Sequence[Mapping[Window, list[int]]], window: Window, number: int
) -> str:
    index = next(index for index, one in enumerate(windows) if window in one)
    return ranks[index].operations[windows[index][window][number]]


def _matrix(
    ranks: Sequence[Collectives],
    windows: Sequence[Mapping[Window, list[int]]],
    columns: Sequence[tuple[Window, int]],
    which: str,
) -> Numbers:
    """Return a time of each matched call in milliseconds, a row a rank; NaN where the rank has no part in it.

    Times count from the first rank's begin, as far as both ranks know the time since 1970.
    """
    found = np.full((len(ranks), len(columns)), np.nan)
    place = {column: at for at, column in enumerate(columns)}
    for row, (rank, own) in enumerate(zip(ranks, windows, strict=True)):
        shift = rank.origin_ns - ranks[0].origin_ns if rank.origin_ns and ranks[0].origin_ns else 0
        times = getattr(rank, which)
        for window, indices in own.items():
            for number, index in enumerate(indices):
                if (window, number) in place:
                    found[row, place[window, number]] = (int(times[index]) + shift) / 1e6
    return found


def _offsets(ends: Numbers) -> tuple[Numbers, float]:
    """Return by how many milliseconds each rank's clock is ahead of the first one's, and what is left uncertain.

    Ranks are aligned in rounds, each against the ends that are known by then. One that shares too few has NaN.
    """
    offsets = np.full(len(ends), np.nan)
    known = np.full(ends.shape[1], np.nan)
    left: list[Numbers] = []
    while True:
        first = bool(np.isnan(offsets).all())
        shared = (~np.isnan(ends) & ~np.isnan(known)).sum(axis=1)
        fit = np.isnan(offsets) & (shared >= LEAST_CALLS)
        fit[0] |= first
        if not fit.any():
            return offsets, float(np.median(np.concatenate(left))) if left else 0.0
        gaps = ends[fit] - (0.0 if first else known)
        offsets[fit] = 0.0 if first else np.nanmedian(gaps, axis=1)
        if not first:
            apart = np.abs(gaps - offsets[fit][:, None])
            left.append(apart[~np.isnan(apart)])
        aligned = ends[fit] - offsets[fit][:, None]
        new = np.isnan(known) & (~np.isnan(aligned)).any(axis=0)
        known[new] = np.nanmedian(aligned[:, new], axis=0)
