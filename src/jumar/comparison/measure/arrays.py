"""Measures the distance of two whole arrays in blocks, without a copy of a large tensor.

Arrays that are still in a file are read block by block, so that a comparison of tensors greater than the
memory takes a few megabytes; big ones are shared between two threads. Imports NumPy: import this module only
where tensors are compared.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from jumar.comparison.model.results import Spot

BLOCK = 1 << 14
"""Elements in a block: four float64 buffers of this size fit a second-level cache."""

ROW = 8192
"""Elements in a dot product. NOTE: from 10,000 elements OpenBLAS shares one between threads, which on a busy machine
is 10 times slower and more (measured)."""

SLICE = 64 * BLOCK
"""Elements that are read from a file at once."""

SHARED = 8 * SLICE
"""Elements from which two threads share the work."""

Numbers = npt.NDArray[np.generic]
Float64s = npt.NDArray[np.float64]


class Readable(Protocol):
    """An array that is read in slices."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def identity(self) -> Hashable:
        """Equal for the same memory of the same file."""

    def read(self, start: int, stop: int) -> Numbers:
        """Return elements in logical order as one dimension."""


class Stored(Readable, Protocol):
    """An array in a file, see `jumar.recording.tensors.stored.StoredArray`."""

    def astype(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Read all of it, in another dtype."""


@dataclass(slots=True)
class ArrayDistance:
    """Sums over all elements that are finite on both sides, as float64."""

    num: int = 0
    squares: float = 0.0
    """Sum of squares of target - reference."""
    reference_squares: float = 0.0
    target_squares: float = 0.0
    dot: float = 0.0
    greatest: float = 0.0
    """Greatest absolute value on either side."""
    num_different: int = 0
    num_nonfinite: int = 0
    target_num_nonfinite: int = 0
    nonfinite_differs: bool = False
    """A NaN or Inf on one side meets another value on the other."""
    max_abs: Spot | None = None
    max_relative: Spot | None = None

    @property
    def cosine(self) -> float | None:
        """Cosine similarity; None where a side has no length."""
        lengths = math.sqrt(self.reference_squares) * math.sqrt(self.target_squares)
        return max(-1.0, min(1.0, self.dot / lengths)) if lengths > 0 else None

    @property
    def l2_relative(self) -> float | None:
        """‖target - reference‖₂ / ‖reference‖₂; None where the reference is zero and the target is not."""
        if self.squares == 0:
            return 0.0
        return math.sqrt(self.squares / self.reference_squares) if self.reference_squares > 0 else None

    def add(self, other: ArrayDistance) -> None:
        """Take in the distance of the elements that follow."""
        for field in fields(self):
            own, others = getattr(self, field.name), getattr(other, field.name)
            if field.name in {"max_abs", "max_relative"}:
                if others is not None and (own is None or others.difference > own.difference):
                    setattr(self, field.name, others)
            elif field.name == "greatest":
                self.greatest = max(own, others)
            elif field.name == "nonfinite_differs":
                self.nonfinite_differs = own or others
            else:
                setattr(self, field.name, own + others)


def distance(reference: Numbers | Stored, target: Numbers | Stored) -> ArrayDistance:
    """Return how far two arrays of one shape are apart. Any dtype; complex numbers by their parts.

    Raises ValueError when the shapes differ, RecordingError when a file ends too soon.
    """
    if reference.shape != target.shape:
        raise ValueError(f"arrays of one shape are needed; got {reference.shape} and {target.shape}")
    if isinstance(reference, np.ndarray) or isinstance(target, np.ndarray):
        return _distance(reference, target)
    return _REMEMBERED.get(reference, target)


class _Remembered:
    """Distances of arrays in files: what one row returns the next one reads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._found: OrderedDict[tuple[Hashable, Hashable], ArrayDistance] = OrderedDict()

    def get(self, reference: Stored, target: Stored) -> ArrayDistance:
        key = reference.identity, target.identity
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _distance(reference, target)
            if len(self._found) > self._size:
                self._found.popitem(last=False)
        return found


_REMEMBERED = _Remembered(2048)


def _distance(reference: Numbers | Readable, target: Numbers | Readable) -> ArrayDistance:
    size = math.prod(reference.shape)
    first, second = _readable(reference), _readable(target)
    if size < SHARED:
        return _between(first, second, 0, size)
    half = size // 2 // SLICE * SLICE
    with ThreadPoolExecutor(max_workers=1) as other:
        later = other.submit(_between, first, second, half, size)
        total = _between(first, second, 0, half)
        total.add(later.result())
    return total


def _readable(array: Numbers | Readable) -> Readable:
    return _InMemory(array) if isinstance(array, np.ndarray) else array


class _InMemory:
    """An array in memory, in slices like one in a file."""

    def __init__(self, array: Numbers) -> None:
        self._flat = np.ascontiguousarray(array).reshape(-1)
        self.shape = array.shape
        self.identity = ()

    def read(self, start: int, stop: int) -> Numbers:
        """Return a view of the elements."""
        return self._flat[start:stop]


def _between(first: Readable, second: Readable, begin: int, end: int) -> ArrayDistance:
    """Return the distance of the elements from `begin` to `end`."""
    total = ArrayDistance(num=end - begin)
    work = np.empty((4, BLOCK))
    for start in range(begin, end, SLICE):
        stop = min(end, start + SLICE)
        x, y = first.read(start, stop), second.read(start, stop)
        parts = 2 if np.iscomplexobj(x) or np.iscomplexobj(y) else 1
        x, y = _real(x, parts), _real(y, parts)
        for at in range(0, x.size, BLOCK):
            pair = x[at : at + BLOCK], y[at : at + BLOCK]
            _add_block(total, pair, work, start * parts + at, (first.shape, parts))
    return total


def _real(numbers: Numbers, parts: int) -> Numbers:
    if parts == 1:
        return numbers
    plain = numbers if np.iscomplexobj(numbers) else numbers.astype(np.complex128)
    return plain.view(plain.real.dtype)


def _add_block(
    total: ArrayDistance, pair: tuple[Numbers, Numbers], work: Float64s, start: int, place: tuple[tuple[int, ...], int]
) -> None:
    """Add one block; `work` are four buffers, `place` the shape of the array and the numbers of an element."""
    x, y, d, scale = work[:, : pair[0].size]
    x[:] = pair[0]
    equal = pair[0] == pair[1]  # False where a NaN is
    different = equal.size - int(np.count_nonzero(equal))
    xx = _dot(x, x)
    if not different and math.isfinite(xx):
        _add_equal(total, x, xx)
        return
    y[:] = pair[1]
    yy = _dot(y, y)
    if not math.isfinite(xx + yy):  # a square of a float64 beyond 1e154 overflows, too; the mask finds no NaN then
        _mask_nonfinite(total, x, y)
        xx, yy = _dot(x, x), _dot(y, y)
        different = int(np.count_nonzero(x != y))
    total.reference_squares += xx
    total.target_squares += yy
    total.greatest = max(total.greatest, float(x.max()), -float(x.min()), float(y.max()), -float(y.min()))
    if not different:
        total.dot += xx
        return
    np.subtract(y, x, out=d)
    total.dot += _dot(x, y)
    total.num_different += different
    total.squares += _dot(d, d)
    _keep_greatest(total, (d, x, y, scale), start, place)


def _add_equal(total: ArrayDistance, x: Float64s, squares: float) -> None:
    total.reference_squares += squares
    total.target_squares += squares
    total.dot += squares
    total.greatest = max(total.greatest, float(x.max()), -float(x.min()))


def _einsum_row_dots(x: Float64s, y: Float64s) -> Float64s:
    found: Float64s = np.einsum("rk,rk->r", x, y)
    return found


_row_dots = getattr(np, "vecdot", _einsum_row_dots)
"""NumPy has `vecdot`, three times as fast, from 2.0 on."""


def _dot(x: Float64s, y: Float64s) -> float:
    if x.size <= ROW:
        return float(x @ y)
    whole = x.size // ROW * ROW
    found = float(_row_dots(x[:whole].reshape(-1, ROW), y[:whole].reshape(-1, ROW)).sum())
    return found + float(x[whole:] @ y[whole:]) if whole < x.size else found


def _mask_nonfinite(total: ArrayDistance, x: Float64s, y: Float64s) -> None:
    bad_x, bad_y = ~np.isfinite(x), ~np.isfinite(y)
    total.num_nonfinite += int(np.count_nonzero(bad_x))
    total.target_num_nonfinite += int(np.count_nonzero(bad_y))
    bad = bad_x | bad_y
    same = (x[bad] == y[bad]) | (np.isnan(x[bad]) & np.isnan(y[bad]))
    total.nonfinite_differs |= not bool(same.all())
    x[bad] = 0.0
    y[bad] = 0.0


def _keep_greatest(
    total: ArrayDistance,
    work: tuple[Float64s, Float64s, Float64s, Float64s],
    start: int,
    place: tuple[tuple[int, ...], int],
) -> None:
    d, x, y, scale = work
    shape, parts = place

    def spot(position: int, difference: float) -> Spot:
        index = np.unravel_index((start + position) // parts, shape)
        return Spot(
            difference=difference,
            index=tuple(int(i) for i in index),
            reference=float(x[position]),
            target=float(y[position]),
        )

    np.abs(d, out=d)
    at = int(d.argmax())
    if total.max_abs is None or d[at] > total.max_abs.difference:
        total.max_abs = spot(at, float(d[at]))
    np.abs(x, out=scale)
    if scale.min() == 0:
        scale[scale == 0] = np.inf  # no relative difference there
    np.divide(d, scale, out=d)
    at = int(d.argmax())
    if d[at] > 0 and (total.max_relative is None or d[at] > total.max_relative.difference):
        total.max_relative = spot(at, float(d[at]))
