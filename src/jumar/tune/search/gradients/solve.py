"""`solve`: the split with the smallest tail, by dynamic programming, and of those the one with the fewest buckets.

With gradients in ready order, S the sums of their bytes and one serial channel

    f[0] = 0,   f[i] = min over j < i of max(f[j], ready[i]) + α + (S[i] − S[j]) / bandwidth

is the earliest arrival of the first i gradients; the tail is f[n] − ready[n]. It is the optimum of MG-WFBP (Shi, Chu
and Li, INFOCOM 2019). Many splits share it, because what arrives before the next gradient is ready costs nothing. The
fewest buckets are found by count: g[k][i] is f with exactly k buckets, and the first k with g[k][n] ≤ f[n] + ε is
taken. A choice among equal f[i] would not do: a prefix that arrives later, but still in time, may need fewer buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.base.errors import UsageError
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.splits import TIE_S, Split, evaluated

Times = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a split must keep to."""

    max_buckets: int | None = None
    min_bytes: int = 0
    """Every bucket but the last has as many."""
    max_bytes: int | None = None
    """A bucket has at most as many, unless it is a single gradient that has more."""


def solve(gradients: Sequence[Gradient], link: Link, bounds: Bounds | None = None, tie_s: float = TIE_S) -> Split:
    """Return the split with the smallest tail; of those within `tie_s` of it, one with the fewest buckets.

    `gradients` are in ready order. Raises UsageError without a gradient, for gradients in another order, and where no
    split keeps to the bounds.
    """
    bounds = bounds or Bounds()
    ready = np.array([one.ready_ns for one in gradients], dtype=np.float64) * 1e-9
    if not gradients or (np.diff(ready) < 0).any():
        raise UsageError("a split needs gradients in the order in which they are ready. Sort them by ready time.")
    steps = _Steps(ready, np.array([one.size_bytes for one in gradients], dtype=np.int64), link, bounds)
    limit = len(gradients) if bounds.max_buckets is None else bounds.max_buckets
    best = steps.earliest()
    if not np.isfinite(best):
        raise _impossible(bounds)
    arrivals, choices = steps.start(), list[Places]()
    lasts: list[float] = []
    while len(choices) < limit:
        arrivals, choice = steps.one_more(arrivals)
        choices.append(choice)
        lasts.append(float(arrivals[-1]))
        if lasts[-1] <= best + tie_s:
            break
    least = min(lasts, default=np.inf)
    if not np.isfinite(least):
        raise _impossible(bounds)
    count = next(number for number, last in enumerate(lasts, 1) if last <= least + tie_s)
    return evaluated(gradients, link, _traced(choices[:count]))


class _Steps:
    """The recursion over one list of gradients."""

    def __init__(self, ready: Times, sizes: Places, link: Link, bounds: Bounds) -> None:
        self._ready = ready
        self._sums = np.concatenate([[0], np.cumsum(sizes)])
        self._link = link
        self._lows, self._highs = self._windows(bounds)

    def _windows(self, bounds: Bounds) -> tuple[list[int], list[int]]:
        """Return for each i the range of j: where the bucket that ends with gradient i − 1 may begin."""
        count = len(self._ready)
        ends = np.arange(1, count + 1)
        lows, highs = np.zeros(count, dtype=np.int64), ends.copy()
        if bounds.max_bytes is not None:
            lows = np.minimum(np.searchsorted(self._sums, self._sums[1:] - bounds.max_bytes), ends - 1)
        if bounds.min_bytes > 0:
            highs = np.minimum(np.searchsorted(self._sums, self._sums[1:] - bounds.min_bytes, side="right"), ends)
            highs[-1] = count  # the last bucket takes what is left
        return lows.tolist(), highs.tolist()

    def start(self) -> Times:
        """Return the arrivals with no bucket: nothing has arrived but nothing."""
        arrivals = np.full(len(self._sums), np.inf)
        arrivals[0] = 0.0
        return arrivals

    def earliest(self) -> float:
        """Return f[n]."""
        arrivals = self.start()
        for i in range(1, len(arrivals)):
            times = self._times(arrivals, i)
            if times.size:
                arrivals[i] = times.min()
        return float(arrivals[-1])

    def one_more(self, before: Times) -> tuple[Times, Places]:
        """Return g[k] of g[k − 1], and the j of each i."""
        arrivals, choice = np.full(len(before), np.inf), np.zeros(len(before), dtype=np.int64)
        for i in range(1, len(before)):
            times = self._times(before, i)
            if times.size:
                place = int(times.argmin())
                arrivals[i], choice[i] = times[place], self._lows[i - 1] + place
        return arrivals, choice

    def _times(self, before: Times, i: int) -> Times:
        low, high = self._lows[i - 1], self._highs[i - 1]
        sizes = self._sums[i] - self._sums[low:high]
        times: Times = np.maximum(before[low:high], self._ready[i - 1]) + sizes / self._link.bandwidth
        return times + self._link.latency_s


def _traced(choices: Sequence[Places]) -> list[int]:
    """Return the ends of the buckets, from the choices of each count."""
    ends: list[int] = []
    at = len(choices[0]) - 1
    for choice in reversed(choices):
        ends.append(at - 1)
        at = int(choice[at])
    return ends[::-1]


def _impossible(bounds: Bounds) -> UsageError:
    given = {
        "buckets at most": bounds.max_buckets,
        "bytes at least": bounds.min_bytes or None,
        "bytes at most": bounds.max_bytes,
    }
    told = ", ".join(f"{value} {name}" for name, value in given.items() if value is not None)
    return UsageError(f"no split of these gradients keeps to the bounds ({told}). Loosen one of them.")
