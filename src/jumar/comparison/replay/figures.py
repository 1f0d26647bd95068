"""Measures how far a recorded output is from the exact one, at the scale of the calculation and in ULPs.

For an output with elements r (recorded) and t (float64), dtype d with machine epsilon eps and smallest normal number
m, the unit in the last place of t is  ulp(t) = eps * max(2**floor(log2|t|), m)  (IEEE 754).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from jumar.comparison.measure.arrays import ArrayDistance, distance
from jumar.comparison.measure.tolerance import epsilon
from jumar.comparison.replay.rebuilt.memory import Array, to_tensor, torch_dtype
from jumar.comparison.replay.results import OutputError
from jumar.recording.schema import TensorRow


@dataclass(frozen=True, slots=True)
class Sides:
    """The recorded and the exact elements of one output, ready for comparing."""

    recorded: torch.Tensor
    """As recorded, in its dtype."""
    exact: torch.Tensor
    """As calculated; may be wider."""
    rounded: torch.Tensor
    """The exact result in the recorded dtype: what a perfect device returns."""


def sides(array: Array, exact: torch.Tensor, row: TensorRow) -> Sides | None:
    """Return both sides of an output, or None when their shapes differ."""
    if tuple(exact.shape) != row.shape:
        return None
    dtype = torch_dtype(row.dtype)
    return Sides(to_tensor(np.asarray(array), dtype), exact, exact.to(dtype))


def relative(found: ArrayDistance, natural: float = 0.0) -> float:
    """Return the greater of the L2 and the greatest distance, relative to the tensors' or the calculation's scale.

    `natural` is the L2 norm the result would have if no terms cancelled.
    """
    if found.nonfinite_differs:
        return math.inf
    l2 = max(math.sqrt(found.reference_squares), math.sqrt(found.target_squares), natural)
    greatest = max(found.greatest, natural / math.sqrt(found.num) if found.num else 0.0)
    max_abs = found.max_abs.difference if found.max_abs is not None else 0.0
    return max(math.sqrt(found.squares) / l2 if l2 else 0.0, max_abs / greatest if greatest else 0.0)


def output_error(name: str, both: Sides, tolerance: float, natural: float, excused: float = 0.0) -> OutputError:
    """Return the figures of one output. `excused` elements, those that differ most, do not count in the error."""
    dtype = str(both.recorded.dtype).removeprefix("torch.")
    shape, num = tuple(both.recorded.shape), both.recorded.numel()
    identical = is_identical(both.recorded, both.rounded)
    if not num or (identical and both.exact.dtype == both.recorded.dtype):
        return _nothing(name, dtype, shape, tolerance, identical or not num)
    eps = epsilon(dtype)
    found = distance(_finite_in(both), to_array(both.recorded))
    different = int((~_equal(both.recorded, both.rounded)).sum())
    if eps == 0:
        counted = max(0.0, different - excused)
        error, ulps, max_ulps = counted / num, 0.0, 0.0
    else:
        error = _error(found, natural, excused)
        ulps, max_ulps = error / eps, _max_ulps(both, dtype)
    spot = found.max_abs
    return OutputError(
        name=name,
        dtype=dtype,
        shape=shape,
        error=error,
        tolerance=tolerance,
        ulps=ulps,
        max_ulps=max_ulps,
        max_abs=spot.difference if spot is not None else 0.0,
        index=spot.index if spot is not None else (),
        recorded=spot.target if spot is not None else 0.0,
        exact=spot.reference if spot is not None else 0.0,
        num_different=different,
        num_elements=num,
        num_nonfinite_differs=_num_nonfinite_differs(both),
        saturated=_saturated(both),
        bit_identical=identical,
    )


def _nothing(name: str, dtype: str, shape: tuple[int, ...], tolerance: float, identical: bool) -> OutputError:
    return OutputError(
        name=name,
        dtype=dtype,
        shape=shape,
        error=0.0,
        tolerance=tolerance,
        ulps=0.0,
        max_ulps=0.0,
        max_abs=0.0,
        num_elements=math.prod(shape),
        bit_identical=identical,
    )


def _error(found: ArrayDistance, natural: float, excused: float) -> float:
    error = relative(found, natural)
    if not excused or not math.isfinite(error) or found.max_abs is None:
        return error
    left = max(0.0, found.squares - excused * found.max_abs.difference**2)
    scale = max(math.sqrt(found.reference_squares), natural)
    return math.sqrt(left) / scale if scale else error


def to_array(tensor: torch.Tensor) -> Array:
    """Return a CPU tensor as an array; what NumPy has no dtype for as float32 or complex64."""
    if tensor.dtype is torch.complex32:
        return tensor.to(torch.complex64).numpy()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        return tensor.to(torch.float32).numpy()
    return tensor.contiguous().numpy()


def _finite_in(both: Sides) -> Array:
    """Return the exact elements; infinite where they are beyond the recorded dtype, because a device must return Inf
    there."""
    if not both.recorded.is_floating_point() or both.exact.dtype == both.recorded.dtype:
        return to_array(both.rounded if both.exact.dtype != both.recorded.dtype else both.exact)
    if not both.exact.is_floating_point():
        return to_array(both.rounded)
    beyond = ~torch.isfinite(both.rounded.to(torch.float64))
    return to_array(torch.where(beyond, both.rounded.to(both.exact.dtype), both.exact))


def _equal(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    a, b = _comparable(first), _comparable(second)
    return (a == b) | (torch.isnan(a) & torch.isnan(b))


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements in a dtype that compares (float8 does not)."""
    if tensor.is_floating_point() and tensor.element_size() == 1:
        return tensor.to(torch.float32)
    return tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor


def is_identical(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors of one shape are equal bit for bit, NaN of any payload being one value."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if not bool(_equal(first, second).all()):
        return False
    if not first.is_floating_point() or first.element_size() == 1:
        return True
    zeros = first == 0  # equal values, but for the sign of zero
    return bool((torch.signbit(first[zeros]) == torch.signbit(second[zeros])).all())


def _max_ulps(both: Sides, dtype: str) -> float:
    """Return the greatest difference of an element in its own units in the last place."""
    recorded, exact = _parts(to_array(both.recorded)), _parts(to_array(both.exact))
    finite = np.isfinite(recorded) & np.isfinite(exact)
    if not finite.any():
        return 0.0
    recorded, exact = recorded[finite], exact[finite]
    exponent = np.frexp(np.maximum(np.abs(exact), _smallest(dtype)))[1] - 1
    return float((np.abs(recorded - exact) / np.ldexp(epsilon(dtype), exponent)).max())


def _parts(array: Array) -> Array:
    """Return the elements as float64, real and imaginary parts of complex ones."""
    if np.iscomplexobj(array):
        array = np.stack((array.real, array.imag))
    return array.astype(np.float64)


def _smallest(dtype: str) -> float:
    part = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    return float(torch.finfo(torch_dtype(part)).smallest_normal)


def _num_nonfinite_differs(both: Sides) -> int:
    if not (both.recorded.is_floating_point() or both.recorded.is_complex()):
        return 0
    a, b = _comparable(both.recorded), _comparable(both.rounded)
    either = ~torch.isfinite(a) | ~torch.isfinite(b)
    return int((either & ~_equal(a, b)).sum())


def _saturated(both: Sides) -> bool:
    if not both.recorded.is_floating_point() or both.recorded.dtype is torch.float64:
        return False
    a, b = both.recorded.to(torch.float64), both.rounded.to(torch.float64)
    limit = torch.finfo(both.recorded.dtype).max
    return bool((torch.isfinite(a) & (a.abs() == limit) & torch.isinf(b)).any())
