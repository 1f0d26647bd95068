"""Microseconds of a trace -> whole nanoseconds, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Integers

EXACT_US = float(1 << 43)
"""Below it float64 is less than half a nanosecond off a time in microseconds."""
NO_TIME = np.iinfo(np.int64).min
"""What stands for a time that is no number."""
LARGEST = 2**62
"""Times beyond it are no times: sums of two must fit into 64 bits."""


class NeedsDecimals(ValueError):
    """float64 has lost digits of these times: they must be read again as decimals."""


def nanoseconds(values: Sequence[Any]) -> Integers:
    """Return whole nanoseconds for microseconds that are floats, integers, decimals or text; `NO_TIME` for others.

    Raises NeedsDecimals where a float is so large that its nanoseconds are lost.
    """
    try:
        micros = np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError):
        return _one_by_one(values)
    return _exactly(micros, values)


def _exactly(micros: npt.NDArray[np.float64], values: Sequence[Any]) -> Integers:
    if not np.isfinite(micros).all() or (len(micros) and np.abs(micros).max() >= EXACT_US):
        return _one_by_one(values)
    whole = np.floor(micros)
    return whole.astype(np.int64) * 1000 + np.rint((micros - whole) * 1000).astype(np.int64)


def _one_by_one(values: Sequence[Any]) -> Integers:
    return np.fromiter((_of(value) for value in values), np.int64, len(values))


def _of(value: Any) -> int:
    if isinstance(value, float) and math.isfinite(value) and abs(value) >= EXACT_US:
        raise NeedsDecimals
    try:
        time = int((Decimal(value) * 1000).to_integral_value())
    except (InvalidOperation, TypeError, ValueError, OverflowError):
        return NO_TIME
    return time if abs(time) < LARGEST else NO_TIME
