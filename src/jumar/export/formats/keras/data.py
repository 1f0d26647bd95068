"""`deferred`: a data set of an HDF5 file as a tensor; how dtypes that HDF5 lacks are stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jumar.base.errors import InputError
from jumar.export.formats.document import damaged
from jumar.export.tensors import PIECE_BYTES, Deferred, TensorInfo, file_pieces

if TYPE_CHECKING:
    from jumar.recording.tensors.guard import Guard

WHAT = "HDF5 file of weights"
NAME = "jumar_name"
"""Attribute with a tensor's name, where the place in the file cannot be read back as one."""
DTYPE = "dtype"
"""Attribute with the dtype of opaque bytes; Keras 3 writes it for bfloat16."""

NUMPY: dict[torch.dtype, str] = {
    torch.float64: "<f8", torch.float32: "<f4", torch.float16: "<f2", torch.int64: "<i8", torch.int32: "<i4",
    torch.int16: "<i2", torch.int8: "|i1", torch.uint8: "|u1", torch.uint16: "<u2", torch.uint32: "<u4",
    torch.uint64: "<u8", torch.bool: "|b1", torch.complex64: "<c8", torch.complex128: "<c16",
}  # fmt: skip
_TORCH = {np.dtype(code): dtype for dtype, code in NUMPY.items()}
OPAQUE = tuple(
    getattr(torch, name)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)
"""Dtypes that HDF5 has no numbers for: opaque bytes with the attribute `dtype`."""
_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in OPAQUE}


@contextmanager
def opened(path: Path) -> Iterator[Guard]:
    """Open an HDF5 file for reading; what is wrong with it becomes an InputError."""
    from jumar.recording.tensors.guard import Guard, UnsafeFileError

    try:
        with Guard(path) as file:
            yield file
    except InputError:
        raise
    except UnsafeFileError as error:
        raise InputError(f"{path} is not read: {error}; save the weights themselves.") from error
    except Exception as error:  # what h5py raises depends on which byte is damaged
        raise InputError(damaged(path, error, WHAT)) from error


def deferred(path: Path, data: Any) -> Deferred:
    """Return a data set, which a `Guard` gave, as a tensor. Raises InputError where it holds no numbers."""
    import h5py

    if not isinstance(data, h5py.Dataset) or data.shape is None:
        raise InputError(damaged(path, f"{getattr(data, 'name', 'a member')} holds no values", WHAT))
    stored = data.dtype
    dtype = _dtype(data)
    if dtype is None:
        raise InputError(f"{path} has {data.name!r} of type {stored}, which is no number; save it without it.")
    info = TensorInfo(tuple(int(extent) for extent in data.shape), dtype)
    offset = data.id.get_offset()
    # The place of the values in the file is enough where they lie as they are wanted.
    if offset is not None and data.chunks is None and stored.newbyteorder("<") == stored:
        if offset + info.size_bytes > path.stat().st_size:
            raise InputError(damaged(path, f"{data.name} reaches beyond its end", WHAT))
        return Deferred(info, lambda: file_pieces(path, offset, info.size_bytes))
    place = data.name
    return Deferred(info, lambda: _unpacked(path, place, info))


def _dtype(data: Any) -> torch.dtype | None:
    stored = data.dtype
    if stored.kind == "V" and stored.fields is None:
        said = data.attrs.get(DTYPE)
        found = _BY_NAME.get(said) if isinstance(said, str) else None
        return found if found is not None and found.itemsize == stored.itemsize else None
    return _TORCH.get(stored.newbyteorder("<")) if stored.kind in "fcbiu" else None


def _unpacked(path: Path, place: str, info: TensorInfo) -> Iterator[memoryview]:
    """Yield the values of a data set in chunks, filtered, or of the other byte order, some rows at a time."""
    with opened(path) as file:
        data = file.item(place)
        stored = data.dtype.newbyteorder("<")
        if not info.shape or not info.num_values:
            yield _bytes(np.asarray(data[()]), stored)
            return
        row = max(info.size_bytes // info.shape[0], 1)
        step = max(PIECE_BYTES // row, 1)
        for start in range(0, info.shape[0], step):
            yield _bytes(np.asarray(data[start : start + step]), stored)


def _bytes(array: np.ndarray, stored: Any) -> memoryview:
    little = np.ascontiguousarray(array if array.dtype.kind == "V" else array.astype(stored, copy=False))
    view: memoryview = little.reshape(-1).view(np.uint8).data
    return view if little.size else memoryview(b"")
