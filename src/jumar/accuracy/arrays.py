"""Distances of two whole arrays, in blocks, so that no copy of a big tensor is made.

Imports NumPy: import this module only where tensors are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.accuracy.results import Spot

BLOCK = 8192
"""Elements in a block. NOTE: from 10,000 elements OpenBLAS shares a dot product between threads, which on a busy
machine is 10 times slower (measured); three float64 blocks of this size also fit a second-level cache."""


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


def distance(reference: npt.NDArray[np.generic], target: npt.NDArray[np.generic]) -> ArrayDistance:
    """Return how far two arrays of one shape are apart. Any dtype; complex numbers by their parts.

    Raises ValueError when the shapes differ.
    """
    if reference.shape != target.shape:
        raise ValueError(f"arrays of one shape are needed; got {reference.shape} and {target.shape}")
    shape = reference.shape
    first, second = _flat(reference), _flat(target)
    parts = first.size // reference.size if reference.size else 1
    total = ArrayDistance(num=int(reference.size))
    for start in range(0, first.size, BLOCK):
        _add_block(total, first[start : start + BLOCK], second[start : start + BLOCK], start, shape, parts)
    return total


def _flat(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def _add_block(
    total: ArrayDistance,
    first: npt.NDArray[np.generic],
    second: npt.NDArray[np.generic],
    start: int,
    shape: tuple[int, ...],
    parts: int,
) -> None:
    x, y = first.astype(np.float64), second.astype(np.float64)
    xx, yy = float(x @ x), float(y @ y)
    if not math.isfinite(xx + yy):  # a square of a float64 beyond 1e154 overflows, too; the mask finds no NaN then
        _mask_nonfinite(total, x, y)
        xx, yy = float(x @ x), float(y @ y)
    total.reference_squares += xx
    total.target_squares += yy
    total.greatest = max(total.greatest, float(x.max()), -float(x.min()), float(y.max()), -float(y.min()))
    d = y - x
    squares = float(d @ d)
    different = int(np.count_nonzero(d)) if squares > 0 or xx != yy or bool(d.any()) else 0
    total.dot += float(x @ y) if different else xx
    if not different:
        return
    total.num_different += different
    total.squares += squares
    np.abs(d, out=d)
    _keep_greatest(total, d, x, y, start, shape, parts)


def _mask_nonfinite(total: ArrayDistance, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> None:
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
    d: npt.NDArray[np.float64],
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    start: int,
    shape: tuple[int, ...],
    parts: int,
) -> None:
    def spot(position: int, difference: float) -> Spot:
        index = np.unravel_index((start + position) // parts, shape)
        return Spot(
            difference=difference,
            index=tuple(int(i) for i in index),
            reference=float(x[position]),
            target=float(y[position]),
        )

    at = int(d.argmax())
    if total.max_abs is None or d[at] > total.max_abs.difference:
        total.max_abs = spot(at, float(d[at]))
    scale = np.abs(x)
    np.divide(d, scale, out=d, where=scale > 0)
    d[scale == 0] = 0.0
    at = int(d.argmax())
    if d[at] > 0 and (total.max_relative is None or d[at] > total.max_relative.difference):
        total.max_relative = spot(at, float(d[at]))
