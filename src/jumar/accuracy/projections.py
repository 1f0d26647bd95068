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
        return EQUAL
    difference = np.frombuffer(target, "<f4").astype(np.float64) - np.frombuffer(reference, "<f4")
    squares = difference * difference
    total = float(squares.sum())
    return SketchDistance(math.sqrt(total), total * total / float(squares @ squares)) if total else EQUAL


def saturates(reference: bytes, target: bytes) -> bool:
    """Return whether a bucket of either side left float32: nothing can be said then."""
    limit = float(np.finfo(np.float32).max)
    return any(bool((np.abs(np.frombuffer(side, "<f4")) >= limit).any()) for side in (reference, target))


EQUAL = SketchDistance(0.0, 0.0)
