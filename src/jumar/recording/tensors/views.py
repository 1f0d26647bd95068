"""Arrays that are views of others: stored once, whatever views of them were seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class ArrayView:
    """A view of an array: `shape` and `strides` in elements from element `offset` of `base`, which is contiguous."""

    base: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Size of its elements; they take no room of their own where the base is kept."""
        return math.prod(self.shape) * self.base.itemsize

    def to_array(self) -> np.ndarray:
        """Return it as an array over the memory of its base."""
        return strided(self.base, self.shape, self.strides, self.offset)


def strided(base: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Return the elements of contiguous memory that shape, strides and offset (in elements) say, without a copy."""
    flat = base.reshape(-1)[offset:]
    octets = [step * base.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(flat, tuple(shape), octets, writeable=False)
