"""Rows of TensorFlow's tensors, with the values that were asked for, in PyTorch's order of dimensions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jumar.capture.frameworks.notebook import Array, described
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.recording import TensorRow, Values

_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
"""Dtypes that NumPy lacks, and the integers that hold their bits."""


class TensorFlowDescriber:
    """Makes rows of tensors. A tensor never changes, so it is read once in a step; a variable each time."""

    def __init__(self, values: Values, layouts: Layouts) -> None:
        self.values = values
        """May be lowered while the run goes on."""
        self._layouts = layouts
        self._known: dict[tuple[int, str], tuple[weakref.ref[Any], TensorRow]] = {}
        self._storages: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._num_storages = 0

    def begin_step(self) -> None:
        """Forget the tensors of the step before."""
        self._known.clear()
        self._storages.clear()
        self._num_storages = 0

    def row(self, name: str, tensor: Any) -> TensorRow:
        """Return the row of a tensor as it is now."""
        layout = self._layouts.of(tensor)
        known = self._known.get((id(tensor), layout))
        if known is not None and known[0]() is tensor:
            return replace(known[1], name=name)
        array, order = self._layouts.array(tensor)
        dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
        numbers = array.astype(np.float32) if dtype in _BITS else array
        found = described(name, dtype, numbers, array, self.values)
        found = replace(found, device="cpu", format=order or "ND", storage=self._storage(tensor))
        if not hasattr(tensor, "assign"):
            self._known[id(tensor), layout] = weakref.ref(tensor), found
        return found

    def was_made(self, tensors: Sequence[Any], of: Sequence[Any]) -> None:
        """Take in the results of an operator; an object is a storage here."""

    def stored(self, tensor: Any) -> Array:
        """Return a copy of the elements as recordings store them: bfloat16 and float8 as raw unsigned integers."""
        array, _ = self._layouts.array(tensor)
        raw = _BITS.get(str(getattr(tensor.dtype, "name", tensor.dtype)))
        return np.array(np.ascontiguousarray(array).view(raw) if raw is not None else array)

    def _storage(self, tensor: Any) -> int:
        known = self._storages.get(id(tensor))
        if known is None or known[0]() is not tensor:
            self._num_storages += 1
            known = self._storages[id(tensor)] = weakref.ref(tensor), self._num_storages
        return known[1]
