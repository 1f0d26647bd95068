"""Tensors that stay in their file and are read slice by slice. Imports h5py.

A data set without chunks is one stretch of the file, which is read directly into the caller's memory; others
(dumps of other tools) are read through HDF5, as many entries of the first axis as a slice touches.
"""

from __future__ import annotations

import math
import os
import weakref
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from jumar.base.errors import RecordingError
from jumar.recording.tensors.arrays import check_plain, decode, view_of
from jumar.recording.tensors.guard import Guard, damage_as_oserror
from jumar.recording.tensors.views import strided

Identity = tuple[str, int, int, int, int]


class TensorFile:
    """A tensor file of one step, open while it or an array of it is in use. Raises OSError when damaged or missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.guard = Guard(path)
        self._raw = path.open("rb", buffering=0)
        weakref.finalize(self, self._raw.close)
        state = os.fstat(self._raw.fileno())
        self._identity = str(path.resolve()), state.st_ino, state.st_mtime_ns, state.st_size
        self._known: weakref.WeakValueDictionary[int, StoredArray] = weakref.WeakValueDictionary()

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def arrays(self, key: str) -> dict[str, StoredArray]:
        """Return the tensors of one row by name, unread. Raises KeyError, OSError."""
        with damage_as_oserror(self.path):
            return {
                f"{side}.{name}": self._array(data)
                for side, group in self.guard.items(self.guard.item(key))
                for name, data in self.guard.items(group)
            }

    def _array(self, data: h5py.Dataset) -> StoredArray:
        """Return one object for a data set, under whatever names it is linked."""
        address = h5py.h5o.get_info(data.id).addr
        found = self._known.get(address)
        if found is None:
            dtype = str(data.attrs.get("dtype", data.dtype))
            identity = (*self._identity, address)
            found = self._known[address] = StoredArray(data, dtype, identity, self)
        return found


class StoredArray:
    """One tensor in a file. `np.asarray` reads all of it, decoded as `jumar.recording.tensors.arrays.decode` does."""

    def __init__(self, data: h5py.Dataset, dtype: str, identity: Identity, file: TensorFile) -> None:
        self._data: Any = data
        self._raw_dtype: np.dtype[Any] = data.dtype
        self._offset: int | None = None
        check_plain(data)
        view = view_of(data, file.guard)
        if view is not None:
            self._data = _mapped_view(file, *view)
            self._raw_dtype = self._data.dtype
        elif data.chunks is None:
            self._offset = data.id.get_offset()
        self.shape: tuple[int, ...] = tuple(self._data.shape)
        self.dtype = dtype
        """Of PyTorch."""
        self.identity = identity
        """Equal for the same memory of the same file."""
        self.size = math.prod(self.shape)
        self._file = file

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Read the whole tensor."""
        return self.read(0, self.size).reshape(self.shape).astype(dtype or self.read(0, 0).dtype, copy=False)

    def astype(self, dtype: Any) -> npt.NDArray[Any]:
        """Read the whole tensor in another dtype."""
        return np.asarray(self).astype(dtype)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the elements from `start` to `stop`, in logical order, as one dimension. Raises RecordingError."""
        num = max(0, stop - start)
        if self._offset is not None or num == 0:
            raw = np.empty(num, self._raw_dtype)
            self._fill(raw, start)
        else:
            raw = self._through_hdf5(start, stop)
        return decode(raw, self.dtype)

    def _fill(self, raw: npt.NDArray[Any], start: int) -> None:
        octets = raw.view(np.uint8)
        place, done = (self._offset or 0) + start * raw.itemsize, 0
        while done < octets.size:
            got = os.preadv(self._file.fileno(), [octets[done:].data], place + done)
            if got == 0:
                raise RecordingError(f"{self.identity[0]} ends within a tensor. Record this step again.")
            done += got

    def _through_hdf5(self, start: int, stop: int) -> npt.NDArray[Any]:
        lead = next((axis for axis, size in enumerate(self.shape) if size != 1), len(self.shape) - 1)
        if not self.shape:
            return np.asarray(self._data[()]).reshape(1)[start:stop]
        step = math.prod(self.shape[lead + 1 :])
        first, last = start // step, -(-stop // step)
        part = self._data[(0,) * lead + (slice(first, last),)]
        return np.ascontiguousarray(part).reshape(-1)[start - first * step : stop - first * step]


def _mapped_view(
    file: TensorFile, base: h5py.Dataset, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return a view of a data set's memory in the file; what is read of it is read from the disk then."""
    place = base.id.get_offset()
    if place is None:  # no elements, or chunks
        return strided(base[()], shape, strides, offset)
    memory = np.memmap(file.path, base.dtype, "r", place, (base.size,))
    return strided(memory, shape, strides, offset)
