"""Tensors of a step in one HDF5 file. Imports h5py: import this module only where tensors are read or written.

Group per row key, then `input/0`, `input/2.1` (second of a list), `input/weight` (keyword),
`output/0`, `grad_output/0`. Every data set has the attribute `dtype` with PyTorch's name. Types
that HDF5 has no form for (bfloat16, float8) are stored as raw unsigned integers.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

_FLOAT8 = {
    # name: (exponent bits, mantissa bits, bias, how the top codes are used)
    "float8_e4m3fn": (4, 3, 7, "nan-only"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
}
"""Formats of https://arxiv.org/abs/2209.05433 and the `fnuz` variants of https://arxiv.org/abs/2206.02915."""


class _Target(io.RawIOBase):
    """A file that never fails towards HDF5: the first error is kept, and what follows goes nowhere.

    HDF5 crashes the process when the flush of a file fails (1.14, a full disk: a segmentation fault
    at the next collection of its objects), which must not happen to the run that is recorded.
    """

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._position = self._end = 0
        self.error: OSError | None = None

    def _attempt(self, work: Callable[[], object]) -> None:
        if self.error is None:
            try:
                work()
            except OSError as error:
                self.error = error

    def write(self, data: Any) -> int:
        """Write all of `data` at the position, or nothing once there was an error."""
        view = memoryview(data).cast("B")
        self._attempt(lambda: self._write_all(view))
        self._position += len(view)
        self._end = max(self._end, self._position)
        return len(view)

    def _write_all(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.pwrite(self._raw.fileno(), view[done:], self._position + done)

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`; zeros where nothing could be written."""
        view = memoryview(buffer).cast("B")
        found = os.pread(self._raw.fileno(), len(view), self._position)
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._position += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self._end = self._position if size is None else size
        self._attempt(lambda: os.ftruncate(self._raw.fileno(), self._end))
        return self._end

    def readable(self) -> bool:
        """HDF5 reads back what it wrote."""
        return True

    def writable(self) -> bool:
        """HDF5 writes."""
        return True

    def seekable(self) -> bool:
        """HDF5 writes at positions."""
        return True


def write_tensors(
    path: Path, tensors: Mapping[str, Mapping[str, np.ndarray]], dtypes: Mapping[str, Mapping[str, str]]
) -> None:
    """Write the arrays (row key -> tensor name -> array) to a new HDF5 file, with PyTorch's dtypes by the same keys.

    An array that occurs several times is stored once, under several names (HDF5 hard links). Raises OSError.
    """
    with path.open("w+b", buffering=0) as raw:
        target = _Target(raw)
        _write(target, tensors, dtypes)
    if target.error is not None:
        raise target.error


def _write(
    target: _Target, tensors: Mapping[str, Mapping[str, np.ndarray]], dtypes: Mapping[str, Mapping[str, str]]
) -> None:
    with h5py.File(target, "w", libver="latest") as file:
        stored: dict[tuple[int, str], h5py.Dataset] = {}
        for key, arrays in tensors.items():
            known = dtypes.get(key, {})
            for name, array in arrays.items():
                if target.error is not None:
                    return
                dtype = known.get(name, str(array.dtype))
                place = f"{key}/{_member(name)}"
                data = stored.get((id(array), dtype))
                if data is None:
                    data = stored[id(array), dtype] = file.create_dataset(place, data=array)
                    data.attrs["dtype"] = dtype
                else:
                    file[place] = data


def read_tensors(file: h5py.File, key: str) -> dict[str, np.ndarray]:
    """Return the arrays of one row by tensor name; bfloat16 and float8 as float32. Raises KeyError, OSError."""
    arrays: dict[str, np.ndarray] = {}
    for side, group in file[key].items():
        for name, data in group.items():
            arrays[f"{side}.{name}"] = decode(data[()], str(data.attrs.get("dtype", data.dtype)))
    return arrays


def decode(raw: Any, dtype: str) -> np.ndarray:
    """Return raw integers of a PyTorch dtype HDF5 lacks as float32; other arrays unchanged."""
    array = np.asarray(raw)
    if array.dtype.kind not in "ui":
        return array
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype in _FLOAT8 or dtype == "float8_e8m0fnu":
        return _float8_values(dtype)[array.astype(np.uint8)]
    return array


def _member(name: str) -> str:
    side, _, rest = name.partition(".")
    return f"{side}/{rest.replace('/', '_') or '0'}"


@lru_cache
def _float8_values(dtype: str) -> np.ndarray:
    """Return the 256 values of a float8 format, by code."""
    if dtype == "float8_e8m0fnu":  # a power of two without sign or mantissa; the last code is NaN
        values = np.exp2(np.arange(256, dtype=np.float64) - 127)
        values[255] = np.nan
        return values.astype(np.float32)
    return np.array([_float8_value(code, *_FLOAT8[dtype]) for code in range(256)], dtype=np.float32)


def _float8_value(code: int, exponent_bits: int, mantissa_bits: int, bias: int, style: str) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if style == "fnuz" and code == 0x80:
        return float("nan")
    if style == "nan-only" and code & 0x7F == 0x7F:
        return float("nan")
    if style == "ieee" and exponent == top:
        return float("nan") if mantissa else sign * float("inf")
    fraction = mantissa / (1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return float(sign * (1 + fraction) * 2.0 ** (exponent - bias))
