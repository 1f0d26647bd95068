"""What operators do with NaN and Inf, and the largest numbers of types."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from jumar.operators import canonical_name, dtypes, named
from jumar.recording.schema import CallRow, TensorRow

SUSPICIOUS = (51200.0, 38400.0)
"""Magnitudes that Ascend's overflow guide names beside 65500 (65504) as signs of an overflow in float16."""

ABSORBS_NEGATIVE = named("absorbs_negative")
"""A -Inf among the inputs of these makes no Inf and no NaN, unless all inputs are -Inf."""

ABSORBS_BOTH = named("absorbs_inf")
"""Of these no Inf makes an Inf or a NaN."""

CHECKS = named("checks")
"""These check values and pass none on."""


ELEMENTWISE = named("elementwise")
"""An element of the output depends on the elements of the inputs at its own place only (with broadcasting)."""

KEEPS_SIGN = named("keeps_sign")
"""An Inf of the inputs that is still one in the output has its sign kept. (`sub` keeps that of its first argument.)"""

EXP_LIMIT = {
    "exp": {"float16": 11.0899, "bfloat16": 88.7229, "float32": 88.7229, "float64": 709.783},
    "expm1": {"float16": 11.0899, "bfloat16": 88.7229, "float32": 88.7229, "float64": 709.783},
    "exp2": {"float16": 16.0, "bfloat16": 128.0, "float32": 128.0, "float64": 1024.0},
    "cosh": {"float16": 11.783, "bfloat16": 89.416, "float32": 89.416, "float64": 710.476},
    "sinh": {"float16": 11.783, "bfloat16": 89.416, "float32": 89.416, "float64": 710.476},
}
"""Greatest argument whose result is finite, by the output's type (the logarithm of the type's greatest number)."""

ATOMIC_ADDS = named("atomic_adds")
"""Operators whose kernels add to one place of memory from several cores (the emulated device has the same table)."""


def magnitude(tensor: TensorRow) -> float | None:
    """Return the greatest absolute value of the finite elements, None where there is none or it is not known."""
    if tensor.minimum is None or tensor.maximum is None:
        return None
    return max(abs(tensor.minimum), abs(tensor.maximum))


@lru_cache(maxsize=4096)
def operator_of(row_name: str) -> str:
    """Return the canonical name of an operator."""
    return canonical_name(row_name)


def literals(row: CallRow) -> list[float]:
    """Return the numbers among the arguments of a call, NaN and Inf included."""
    if not row.arguments:
        return []
    try:
        found = json.loads(row.arguments)
    except ValueError:
        return []
    return list(_numbers(found.values() if isinstance(found, dict) else [found]))


def _numbers(values: Any) -> Any:
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield _as_float(value)
        elif isinstance(value, str) and value.lower().lstrip("+-") in ("inf", "infinity", "nan"):
            yield float(value)
        elif isinstance(value, list):
            yield from _numbers(value)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that no float reaches
        return math.inf if value > 0 else -math.inf


def is_atomic(row: CallRow) -> bool:
    """Return whether an overflow of this call counts as one of an atomic addition."""
    return row.kind == "op" and operator_of(row.name) in ATOMIC_ADDS


def largest_of(dtype: str) -> float | None:
    """Return the greatest number of a type of 16 bits or more. Programs scale smaller ones to their end on purpose."""
    found = dtypes.dtype(dtype)
    return found.largest if found is not None and found.is_floating_point and found.size_bytes > 1 else None


def limit_reached(tensor: TensorRow) -> float | None:
    """Return the value at the end of the tensor's type that it has among its elements, or None.

    In float16 everything from 65472 on counts (65500 as it is printed in four digits).
    """
    largest = largest_of(tensor.dtype)
    if largest is None:
        return None
    bound = 65472.0 if tensor.dtype == "float16" else largest * (1 - 1e-7)
    return _first(value for value in (tensor.maximum, tensor.minimum) if value is not None and abs(value) >= bound)


def suspicious(tensor: TensorRow) -> float | None:
    """Return the magnitude of `SUSPICIOUS` at which a float16 tensor begins or ends, or None."""
    if tensor.dtype != "float16":
        return None
    return _first(value for value in (tensor.maximum, tensor.minimum) if value is not None and abs(value) in SUSPICIOUS)


def _first(values: Any) -> float | None:
    return next(iter(values), None)
