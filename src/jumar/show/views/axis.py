"""Axes of charts: a domain, ticks at round numbers, and where in the domain a value lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from jumar.base.text.digits import decimal_text, number_text

NUM_TICKS = 5
_MOST_LOG_TICKS = 8
"""A logarithmic axis with more marks at 1, 2 and 5 than this has ticks at powers of ten only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from `low` to `high` (low < high); on a logarithmic one both are positive."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False

    def position(self, value: float) -> float:
        """Return where `value` lies: 0 at `low`, 1 at `high`, and nothing beyond."""
        if self.log:
            low, high, value = (math.log10(number) for number in (self.low, self.high, value))
        else:
            # Halves, because high - low overflows for an axis from -1e308 to 1e308.
            low, high, value = self.low / 2, self.high / 2, value / 2
        return min(1.0, max(0.0, (value - low) / (high - low)))


def linear_axis(
    values: Sequence[float], *, tight: bool = False, whole: bool = False, num_ticks: int = NUM_TICKS
) -> Axis:
    """Return an axis that shows all of `values` (finite, at least one).

    `tight` ends the axis at the data instead of at the next tick; `whole` allows ticks at whole
    numbers only (steps, epochs).
    """
    low, high = _spread(min(values), max(values))
    exponent, factor = _step(low, high, num_ticks)
    if whole and exponent < 0:
        exponent, factor = 0, 1
    step = Decimal(factor).scaleb(exponent)
    outward = (math.ceil, math.floor) if tight else (math.floor, math.ceil)
    first, last = outward[0](Decimal(low) / step), outward[1](Decimal(high) / step)
    ticks = [step * count for count in range(first, last + 1)]
    if not tight:
        low, high = _finite(ticks[0]), _finite(ticks[-1])
    return Axis(
        low=low, high=high, ticks=tuple(_finite(tick) for tick in ticks), labels=tuple(decimal_text(t) for t in ticks)
    )


def log_axis(values: Sequence[float]) -> Axis:
    """Return a logarithmic axis that shows all of `values` (finite, positive, at least one)."""
    least, greatest = min(values), max(values)
    decades = math.log10(greatest) - math.log10(least)
    if 0 < decades < 1:
        axis = linear_axis(values)
        if axis.low > 0:
            return Axis(low=axis.low, high=axis.high, ticks=axis.ticks, labels=axis.labels, log=True)
    marks = _marks(least, greatest, (1, 2, 5))
    # The defaults are for values so near to 0 or to the greatest float that no mark lies beyond them.
    first = max((index for index, mark in enumerate(marks) if mark <= least), default=0)
    last = min((index for index, mark in enumerate(marks) if mark >= greatest), default=len(marks) - 1)
    if first == last:
        first, last = max(0, first - 1), min(len(marks) - 1, last + 1)
    shown = marks[first : last + 1]
    ticks = shown
    if len(shown) > _MOST_LOG_TICKS:
        powers = [mark for mark in _marks(least, greatest, (1,)) if shown[0] <= mark <= shown[-1]]
        ticks = powers[:: math.ceil(len(powers) / _MOST_LOG_TICKS)]
    return Axis(
        low=shown[0], high=shown[-1], ticks=tuple(ticks), labels=tuple(number_text(tick) for tick in ticks), log=True
    )


def _marks(least: float, greatest: float, steps: Sequence[int]) -> list[float]:
    exponents = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(greatest)) + 2)
    marks = [float(f"{step}e{exponent}") for exponent in exponents for step in steps]
    return [mark for mark in marks if 0 < mark < math.inf]


def _spread(low: float, high: float) -> tuple[float, float]:
    """Widen an empty range (a constant series) so that the line runs through the middle."""
    if high / 2 - low / 2 > max(abs(low), abs(high)) * 1e-14:
        return low, high
    margin = abs(low) * 0.05 or 0.5
    return _finite(Decimal(low) - Decimal(margin)), _finite(Decimal(high) + Decimal(margin))


def _step(low: float, high: float, num_ticks: int) -> tuple[int, int]:
    """Return (exponent, factor): ticks are `factor` (1, 2 or 5) times 10**exponent apart."""
    raw = (Decimal(high) - Decimal(low)) / num_ticks
    exponent = raw.adjusted()
    mantissa = raw.scaleb(-exponent)
    for factor in (1, 2, 5):
        if mantissa <= factor:
            return exponent, factor
    return exponent + 1, 1


def _finite(value: Decimal) -> float:
    greatest = 1.7976931348623157e308
    return max(-greatest, min(greatest, float(value)))
