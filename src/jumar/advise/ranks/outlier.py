"""`stands_out`: whether one rank is greater than the others beyond what chance and noise explain."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
CHANCE = 0.1
"""Accepted chance that any of the ranks stands out although all are alike."""
MANY = 8
"""From so many ranks on their medians show by themselves how much ranks differ."""
MADS = 6.0
"""Distance from the median, in median absolute deviations, from which on one of many stands out (about four sigma)."""
EXACT = 20
"""Values of one rank up to which the chance is counted; of more, the normal distribution is near enough."""


def stands_out(values: Numbers, row: int) -> bool:
    """Return whether a rank's values, shape (ranks, steps), are greater than those of the others.

    Few ranks: the one-sided test of Mann and Whitney (1947) of its steps against those of all others, ties half, times
    the number of ranks. Many ranks: its median is an outlier among their medians, by their median absolute deviation.
    """
    own, others = values[row], np.delete(values, row, axis=0)
    if len(values) >= MANY:
        medians = np.median(others, axis=1)
        usual = float(np.median(medians))
        spread = float(np.median(np.abs(medians - usual)))
        return bool(np.median(own) - usual > MADS * spread)
    pooled = others.ravel()
    ahead = float((own[:, None] > pooled).sum() + (own[:, None] == pooled).sum() / 2)
    return chance(len(own), len(pooled), ahead) * len(values) < CHANCE


def too_few(ranks: int, steps: int) -> str:
    """Return why no rank of so many can stand out in so many steps, a part of a sentence; empty where one can."""
    if ranks >= MANY or chance(steps, steps * (ranks - 1), steps * steps * (ranks - 1)) * ranks < CHANCE:
        return ""
    return f"{steps} steps of {ranks} ranks are too few to tell a late rank from noise: profile more steps."


def chance(few: int, many: int, ahead: float) -> float:
    """Return the chance that `ahead` or more of the `few` · `many` pairs are won by the few, where all are alike."""
    if few > EXACT:
        spread = math.sqrt(few * many * (few + many + 1) / 12)
        return 0.5 * math.erfc((ahead - 0.5 - few * many / 2) / spread / math.sqrt(2))
    counts = _counts(few, many)
    return sum(counts[math.floor(ahead) :]) / math.comb(few + many, few)


@cache
def _counts(few: int, many: int) -> tuple[int, ...]:
    """Return in how many orders of `few` and `many` values the few win 0, 1, 2, … pairs (Gauss's binomials)."""
    counts = [1] + [0] * (few * many)
    for index in range(1, few + 1):  # multiply by (1 - x^(many + index)) / (1 - x^index)
        for at in range(few * many, many + index - 1, -1):
            counts[at] -= counts[at - many - index]
        for at in range(index, few * many + 1):
            counts[at] += counts[at - index]
    return tuple(counts)
