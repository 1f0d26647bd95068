"""The gate's formula: how much faster, and how sure.

A measurement is a list of pairs (before, after), taken alternately. With dᵢ = ln(beforeᵢ / afterᵢ)

    ratio    = exp(median of d)
    interval = [exp(d₍k₎), exp(d₍n+1−k₎)],  d₍₁₎ ≤ … ≤ d₍n₎,
               k the greatest with 2·P(Binomial(n, ½) ≤ k−1) ≤ 1 − confidence

The interval of the median by order statistics (David and Nagaraja, *Order Statistics*, 3rd ed.,
section 7.1) assumes no distribution, so that the outliers of a shared machine neither widen it nor
move it; its coverage is at least `confidence` for every n, and with fewer than six pairs (at 95 %) it
is unbounded. Pairs, because a drift of the machine's speed meets both sides alike and leaves dᵢ.

A candidate clears the gate when the *lower* bound is at least 1 + min_gain. `ratio − 1` is the
improvement as the vendor writes it, (before − after) / after.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jumar.base.findings import Json

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a paired measurement says. Times are per call, in microseconds."""

    before_us: float
    """Median over the pairs."""
    after_us: float
    mean_before_us: float
    mean_after_us: float
    ratio: float
    """Before over after: above 1 is faster."""
    ratio_low: float
    ratio_high: float
    num_pairs: int
    calls_per_sample: int = 1
    num_disturbed: int = 0
    """Further pairs that were left out, because other programs kept a thread from running."""
    confidence: float = CONFIDENCE
    is_estimate: bool = False
    """The times are those of an analytic model: there are no pairs, and the interval is a point."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Gain:
        """Rebuild a gain from `to_json`."""
        fields: dict[str, Any] = {name: math.inf if value == "inf" else value for name, value in data.items()}
        return cls(**fields)

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON; an unbounded end of the interval is the string `inf`."""
        known = {name: value for name, value in asdict(self).items() if name != "is_estimate" or value}
        return {name: "inf" if value == math.inf else value for name, value in known.items()}

    def clears(self, min_gain: float) -> bool:
        """Tell whether the whole interval is at least `min_gain` (0.02 is 2 %) faster."""
        return self.ratio_low >= 1 + min_gain

    @property
    def interval(self) -> str:
        """The interval of the improvement in percent, `+15.0 to +25.0`; `estimate` where nothing was measured."""
        if self.is_estimate:
            return "estimate"
        return " to ".join(f"{(bound - 1) * 100:+.1f}" for bound in (self.ratio_low, self.ratio_high))

    def __str__(self) -> str:
        """`12.0 → 10.0 us, +20.0 % (95 % interval +15.0 % to +25.0 %, 41 pairs)`."""
        return self.told("us", 1.0)

    def told(self, unit: str, unit_us: float) -> str:
        """Return the gain in words, with its times in a unit of so many microseconds."""
        before, after = self.before_us / unit_us, self.after_us / unit_us
        times = f"{before:.4g} → {after:.4g} {unit}, {(self.ratio - 1) * 100:+.1f} %"
        if self.is_estimate:
            return f"{times} (an estimate, not a measurement)"
        low, high = ((bound - 1) * 100 for bound in (self.ratio_low, self.ratio_high))
        return f"{times} ({self.confidence * 100:g} % interval {low:+.1f} % to {high:+.1f} %, {self.num_pairs} pairs)"


def gain_of(
    before_us: Sequence[float], after_us: Sequence[float], calls_per_sample: int = 1, num_disturbed: int = 0
) -> Gain:
    """Return the gain of paired times per call. Raises ValueError when they are not pairs of positive times."""
    if len(before_us) != len(after_us) or not before_us or min(*before_us, *after_us) <= 0:
        raise ValueError(f"paired times must be positive and equally many; got {len(before_us)} and {len(after_us)}")
    logs = [math.log(before / after) for before, after in zip(before_us, after_us, strict=True)]
    low, high = median_interval(logs)
    return Gain(
        before_us=statistics.median(before_us),
        after_us=statistics.median(after_us),
        mean_before_us=statistics.fmean(before_us),
        mean_after_us=statistics.fmean(after_us),
        ratio=math.exp(statistics.median(logs)),
        ratio_low=math.exp(low),
        ratio_high=math.exp(high),
        num_pairs=len(logs),
        calls_per_sample=calls_per_sample,
        num_disturbed=num_disturbed,
    )


def estimated_gain(before_us: float, after_us: float) -> Gain:
    """Return the gain of two estimated times. Raises ValueError unless both are positive."""
    if min(before_us, after_us) <= 0:
        raise ValueError(f"estimated times must be positive; got {before_us} and {after_us}")
    ratio = before_us / after_us
    return Gain(
        before_us=before_us, after_us=after_us, mean_before_us=before_us, mean_after_us=after_us, ratio=ratio,
        ratio_low=ratio, ratio_high=ratio, num_pairs=0, is_estimate=True,
    )  # fmt: skip


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the confidence interval of the median of `values`; infinite when they are too few."""
    ordered = sorted(values)
    rank = interval_rank(len(ordered), confidence)
    if rank == 0:
        return -math.inf, math.inf
    return ordered[rank - 1], ordered[-rank]


def interval_rank(count: int, confidence: float) -> int:
    """Return k of the module's formula; 0 when even the extremes do not cover enough."""
    allowed = (1 - confidence) / 2 * 2**count
    below, rank = 0, 0
    for successes in range(count // 2):
        below += math.comb(count, successes)
        if below > allowed:
            break
        rank = successes + 1
    return rank


def improvement_percent(before: float, after: float) -> float:
    """Return the vendor's improvement in percent: (before − after) / after × 100."""
    return (before - after) / after * 100
