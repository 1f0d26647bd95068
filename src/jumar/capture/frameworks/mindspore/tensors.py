"""Rows of MindSpore tensors, with the values that were asked for. Imports MindSpore where a tensor is met."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jumar.capture.frameworks.notebook import Array, described
from jumar.recording import TensorRow, Values
from jumar.recording.foreign.values import plain_row

_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8, "hifloat8": np.uint8}
"""Dtypes that NumPy lacks, and the integers that hold their bits."""


def dtype_name(tensor: Any) -> str:
    """Return PyTorch's name of a tensor's dtype: `float32` of `Float32`, `bool` of `Bool`."""
    return str(tensor.dtype).rpartition(".")[2].lower()


def stored_array(tensor: Any) -> Array:
    """Return a copy of the elements as recordings store them: bfloat16 and float8 as raw unsigned integers."""
    array, raw = tensor.asnumpy(), _BITS.get(dtype_name(tensor))
    return np.array(array.view(raw) if raw is not None else array)


class Describer:
    """Makes rows of tensors. What is known of a tensor that has not changed is not computed again within a step."""

    def __init__(self, values: Values) -> None:
        self.values = values
        """May be lowered while the run goes on."""
        self._known: dict[int, tuple[weakref.ref[Any], int, TensorRow]] = {}
        self._storages: dict[int, int] = {}
        self._objects: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._num_storages = 0

    def begin_step(self) -> None:
        """Forget the tensors of the step before."""
        self._known.clear()
        self._storages.clear()
        self._objects.clear()
        self._num_storages = 0

    def row(self, name: str, tensor: Any) -> TensorRow:
        """Return the row of a tensor as it is now."""
        known, version = self._known.get(id(tensor)), _version(tensor)
        if known is not None and known[0]() is tensor and known[1] == version:
            return replace(known[2], name=name)
        row = self._described(name, tensor)
        if not isinstance(tensor, _parameter()):  # an optimizer writes it without a new version
            self._known[id(tensor)] = weakref.ref(tensor), version, row
        return row

    def was_made(self, tensors: Sequence[Any], of: Sequence[Any]) -> None:
        """Take in the results of an operator: memory that none of its arguments has is new, or used anew."""
        taken = {_address(tensor) for tensor in of}
        for tensor in tensors:
            if _address(tensor) not in taken:
                self._number(_address(tensor), is_new=True)

    def _described(self, name: str, tensor: Any) -> TensorRow:
        dtype = dtype_name(tensor)
        if self.values == "none":
            row = plain_row(name, tuple(map(int, tensor.shape)), dtype)
        else:
            array = tensor.asnumpy()
            numbers = array.astype(np.float32) if dtype in _BITS else array
            row = described(name, dtype, numbers, array, self.values)
        return replace(row, device=_device(tensor), storage=self._storage(tensor))

    def stored(self, tensor: Any) -> Array:
        """Return a copy of the elements as recordings store them: bfloat16 and float8 as raw unsigned integers."""
        return stored_array(tensor)

    def _storage(self, tensor: Any) -> int:
        """Return a number that tensors share which are one object, or lie at one address."""
        known = self._objects.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        number = self._number(_address(tensor))
        self._objects[id(tensor)] = weakref.ref(tensor), number
        return number

    def _number(self, address: int, *, is_new: bool = False) -> int:
        if is_new or address not in self._storages:
            self._num_storages += 1
            self._storages[address] = self._num_storages
        return self._storages[address]


def _parameter() -> type:
    import mindspore

    kind: type = mindspore.Parameter
    return kind


def _address(tensor: Any) -> int:
    address = getattr(tensor, "data_ptr", None)
    return int(address()) if address is not None else id(tensor)


def _version(tensor: Any) -> int:
    return int(getattr(tensor, "_version", 0))


def _device(tensor: Any) -> str:
    return str(getattr(tensor, "device", "") or "cpu").lower()
