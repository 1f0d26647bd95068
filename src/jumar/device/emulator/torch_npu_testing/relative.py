"""The rule of `assertRtolEqual`: how far an NPU's result may be from the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALLEST = {np.dtype(np.float16): 6e-8}
_SMALLEST_OTHER = 1e-9
_COMPARED = ("bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def complaint(x: Any, y: Any, tolerance: float) -> str:
    """Return why two arrays do not agree, or "".

    They agree when every element is within the tolerance relatively, or every one absolutely, or when the
    elements that are not, by one of the two, are no larger part of all than the tolerance itself.
    """
    for what in ("shape", "dtype"):
        if getattr(x, what) != getattr(y, what):
            return f"{what} error: {getattr(x, what)} and {getattr(y, what)}"
    if x.dtype.name not in _COMPARED:
        return f"required dtype in {list(_COMPARED)}; got {x.dtype}"
    if x.dtype == np.bool_:
        return "" if np.array_equal(x, y) else "result error"
    missing = np.isnan(x)
    if not np.array_equal(missing, np.isnan(y)):
        return "NaNs are not in the same places"
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(np.where(missing, 0, y - x))
        scale = np.maximum(np.abs(x), np.abs(y)) + _SMALLEST.get(x.dtype, _SMALLEST_OTHER)
        num_absolute = int(np.sum(~(difference <= tolerance)))
        num_relative = int(np.sum(~(difference / np.where(missing, 1, scale) <= tolerance)))
    if min(num_absolute, num_relative) <= x.size * tolerance:
        return ""
    worst = np.unravel_index(int(np.argmax(difference)), x.shape)
    at = tuple(int(index) for index in worst)
    return (
        f"result error: {num_relative} of {x.size} elements differ relatively, {num_absolute} absolutely, by more than "
        f"{tolerance:g}; the greatest difference is {difference[worst]:g} at {at}: {x[worst]:g} and {y[worst]:g}"
    )
