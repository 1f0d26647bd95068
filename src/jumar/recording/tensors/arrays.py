"""Tensors of a step in one HDF5 file. Imports h5py: import this module only where tensors are read or written.

Group per row key, then `input/0`, `input/2.1` (second of a list), `input/weight` (keyword),
`output/0`, `grad_output/0`. Every data set has the attribute `dtype` with PyTorch's name. Types
that HDF5 has no form for (bfloat16, float8) are stored as raw unsigned integers.

A tensor that is a view of another one in the file is stored as what it is: a data set of integers (offset,
shape, strides, in elements of the other's memory) with the attribute `view_of`, the path of the other. What
views were taken of and is no tensor of a row itself is in the group `memory`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from jumar.recording.tensors.building import VIEW_OF, Builder
from jumar.recording.tensors.guard import Guard, UnsafeFileError, is_plain
from jumar.recording.tensors.target import PAGE, PageWriter, Target, write_all
from jumar.recording.tensors.views import ArrayView, strided

_FLOAT8 = {
    # name: (exponent bits, mantissa bits, bias, how the top codes are used)
    "float8_e4m3fn": (4, 3, 7, "nan-only"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
}
"""Formats of https://arxiv.org/abs/2209.05433 and the `fnuz` variants of https://arxiv.org/abs/2206.02915."""


Arrays = Mapping[str, Mapping[str, "np.ndarray | ArrayView"]]
"""Arrays by row key and tensor name."""


def write_tensors(path: Path, tensors: Arrays, dtypes: Mapping[str, Mapping[str, str]]) -> None:
    """Write the arrays (row key -> tensor name -> array) to a new HDF5 file, with PyTorch's dtypes by the same keys.

    An array that occurs several times is stored once, under several names (HDF5 hard links), and what views
    are of once too. Raises OSError.
    """
    TensorWriter().write(path, tensors, dtypes)


class TensorWriter:
    """Writes tensor files one after the other. Of a file that is built like the one before only the data are new.

    HDF5 takes a second to build a file of a few thousand names; copying what it built takes no time (measured).
    """

    def __init__(self) -> None:
        self._last: _Template | None = None

    def write(self, path: Path, tensors: Arrays, dtypes: Mapping[str, Mapping[str, str]]) -> None:
        """Write a file as `write_tensors` does."""
        plan = _Plan(tensors, dtypes)
        if self._last is not None and self._last.structure == plan.structure:
            self._last.write(path, plan.arrays)
            return
        self._last = None
        with path.open("w+b", buffering=0) as raw:
            target = Target(raw)
            places = _build(target, plan)
            if target.error is not None:
                raise target.error
            _write_arrays(path, raw.fileno(), places, plan.arrays)
        self._last = _Template(path, plan, places)


class _Plan:
    """What goes into a file: `entries` in order, and the `arrays` that are stored as such."""

    def __init__(self, tensors: Arrays, dtypes: Mapping[str, Mapping[str, str]]) -> None:
        self.entries: list[tuple[Any, ...]] = []
        """An array: place, dtype, its number; a view: place, dtype, place of its base, the view; a link: two places."""
        self.arrays: list[np.ndarray] = []
        self._places: dict[tuple[int, str], str] = {}
        self._num_memories = 0
        for key, arrays in tensors.items():
            known = dtypes.get(key, {})
            for name, array in arrays.items():
                base = array.base if isinstance(array, ArrayView) else array
                self._add(f"{key}/{_member(name)}", array, known.get(name, str(base.dtype)))
        self.structure = self.entries, [(array.dtype.str, array.shape) for array in self.arrays]

    def _add(self, place: str, array: np.ndarray | ArrayView, dtype: str) -> None:
        known = self._places.get((id(array), dtype))
        if known is not None:
            self.entries.append((place, known))
            return
        if isinstance(array, ArrayView):
            base = self._places.get((id(array.base), dtype))
            if base is None:
                base = f"memory/{self._num_memories}"
                self._num_memories += 1
                self._add(base, array.base, dtype)
            self.entries.append((place, dtype, base, (array.offset, *array.shape, *array.strides)))
        else:
            self.entries.append((place, dtype, len(self.arrays)))
            self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        self._places[id(array), dtype] = place


_ALIGNED = {"alignment_threshold": 16 * PAGE, "alignment_interval": PAGE}
"""Arrays of some size begin at a page, so that they can be written past the system's cache."""


def _build(target: Target, plan: _Plan) -> list[int | None]:
    """Write a file but for its arrays through HDF5, and return where each array goes; None for one without elements."""
    with h5py.File(target, "w", libver="latest", **_ALIGNED) as file:
        builder = Builder(file)
        for place, *what in plan.entries:
            if target.error is not None:
                break
            if len(what) == 1:
                builder.add_link(place, what[0])
            elif len(what) == 2:
                array = plan.arrays[what[1]]
                builder.add_array(place, what[0], array.dtype, array.shape)
            else:
                builder.add_view(place, *what)
        builder.close()
    return builder.places


def _write_arrays(path: Path, file: int, places: Sequence[int | None], arrays: Sequence[np.ndarray]) -> None:
    """Write arrays to their places in an open file. Raises OSError."""
    pages = PageWriter(path, file)
    try:
        for start, array in zip(places, arrays, strict=True):
            if start is not None:
                pages.write(array.reshape(-1).view(np.uint8).data, array.ctypes.data, start)
    finally:
        pages.close()


class _Template:
    """A file that was written: everything of it but the arrays."""

    def __init__(self, path: Path, plan: _Plan, places: Sequence[int | None]) -> None:
        self.structure = plan.structure
        self._places = places
        self._rest: list[tuple[int, bytes]] = []
        taken = sorted(
            (place, array.nbytes) for place, array in zip(places, plan.arrays, strict=True) if place is not None
        )
        self._size = path.stat().st_size
        with path.open("rb") as file:
            end = 0
            for place, size in (*taken, (self._size, 0)):
                if place > end:
                    file.seek(end)
                    self._rest.append((end, file.read(place - end)))
                end = place + size

    def write(self, path: Path, arrays: Sequence[np.ndarray]) -> None:
        """Write a file of the same structure with these arrays. Raises OSError."""
        with path.open("wb", buffering=0) as raw:
            os.ftruncate(raw.fileno(), self._size)
            for place, octets in self._rest:
                write_all(raw.fileno(), octets, place)
            _write_arrays(path, raw.fileno(), self._places, arrays)


def view_of(data: h5py.Dataset, file: Guard) -> tuple[h5py.Dataset, int, tuple[int, ...], tuple[int, ...]] | None:
    """Return (the other data set, offset, shape, strides) of a view, None for a data set of its own.

    Raises KeyError when the other is not in the file, OSError for a view that leaves the other's memory or is far
    larger.
    """
    name = data.attrs.get(VIEW_OF)
    if name is None:
        return None
    base = file.item(name)
    if not isinstance(base, h5py.Dataset) or VIEW_OF in base.attrs or data.ndim != 1 or data.dtype.kind not in "iu":
        raise OSError(f"{data.name} is no view of {name}")
    check_plain(base)
    offset, *rest = data[()].tolist()
    half = len(rest) // 2
    shape, strides = tuple(rest[:half]), tuple(rest[half:])
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    is_whole = len(rest) % 2 == 0 and min((offset, *rest)) >= 0 and (0 in shape or last < math.prod(base.shape))
    if not is_whole:
        raise OSError(f"{data.name} is no view of {name}: offset {offset}, shape {shape}, strides {strides}")
    file.check_size(base, shape)
    return base, offset, shape, strides


def check_plain(data: h5py.Dataset) -> None:
    """Raise UnsafeFileError for a data set of other things than numbers: texts and references are made one by one."""
    if not is_plain(data):
        raise UnsafeFileError(f"{data.name} holds no numbers")


def read_data(data: h5py.Dataset, file: Guard) -> tuple[np.ndarray, str]:
    """Return the elements of a data set, decoded, and PyTorch's name of its dtype. Raises as `view_of` does."""
    dtype = str(data.attrs.get("dtype", data.dtype))
    return decode(_raw(data, file), dtype), dtype


def read_tensors(file: Guard, key: str) -> dict[str, np.ndarray]:
    """Return the arrays of one row by tensor name; bfloat16 and float8 as float32. Raises KeyError, OSError."""
    arrays: dict[str, np.ndarray] = {}
    for side, group in file.items(file.item(key)):
        for name, data in file.items(group):
            arrays[f"{side}.{name}"] = read_data(data, file)[0]
    return arrays


def _raw(data: h5py.Dataset, file: Guard) -> Any:
    check_plain(data)
    view = view_of(data, file)
    if view is None:
        return data[()]
    base, offset, shape, strides = view
    return strided(base[()], shape, strides, offset).copy()


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
