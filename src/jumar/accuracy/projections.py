"""How far two tensors are apart by their sketches. Imports NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jumar.recording import sketch

FEW = 8.0
"""Buckets over which the difference is spread, from which it is in more than a handful of elements. Of many elements
it is 21 with 64 buckets (64 · E[x²]² / E[x⁴] of a normal x), of one element 1."""


@dataclass(frozen=True, slots=True)
class SketchDistance:
    """The distance of two tensors, estimated; absolute figures."""

    estimate: float
    """Of ‖b - a‖₂."""
    spread: float
    """(Σ s²)² / Σ s⁴ over the buckets of the difference: 1 for one element, about 21 for many; 0 for none."""
    overflow: bool
    """A bucket left float32: nothing can be said."""

    @property
    def is_concentrated(self) -> bool:
        """Whether the difference may be in a few elements only."""
        return 0.0 < self.spread < FEW

    def at_least(self, l2_a: float, l2_b: float) -> float:
        """Return what ‖b - a‖₂ is at least, with the confidence of `sketch.error_bound`."""
        return max(0.0, self.estimate - sketch.error_bound(self.estimate, l2_a, l2_b))

    def at_most(self, l2_a: float, l2_b: float) -> float:
        """Return what ‖b - a‖₂ is at most, with the same confidence, but for the rounding of the sketches."""
        return self.estimate + sketch.error_bound(self.estimate, 0.0, 0.0) if self.estimate else 0.0


@lru_cache(maxsize=8192)
def sketch_distance(reference: bytes, target: bytes) -> SketchDistance:
    """Return the distance of two sketches. What one call gives the next one takes: the last few thousand are kept."""
    if reference == target:
        return SketchDistance(0.0, 0.0, overflow=False)
    a, b = sketch.unpack(reference), sketch.unpack(target)
    limit = float(np.finfo(np.float32).max)
    difference = b.astype(np.float64) - a
    largest = float(np.abs(difference).max())
    overflow = bool((np.abs(a) >= limit).any() or (np.abs(b) >= limit).any())
    if largest == 0:  # 0.0 against -0.0
        return SketchDistance(0.0, 0.0, overflow=overflow)
    squares = np.square(difference / largest)
    total = float(squares.sum())
    return SketchDistance(largest * math.sqrt(total), total * total / float(squares @ squares), overflow=overflow)
