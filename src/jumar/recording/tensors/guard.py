"""HDF5 files of others, opened so that nothing outside of them is read and little memory is asked for. Imports h5py.

An HDF5 file can point elsewhere: an external link to another file, a data set whose values lie in any file of the
system, a virtual data set over other files. It can declare more than it stores: an array of 32 GiB of which nothing
was written, or chunks that inflate a thousandfold. What `Guard` returns does none of this.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
from h5py import h5d, h5l, h5t, h5z

SPARE_BYTES, SPARE_FACTOR = 64 << 20, 100
"""A data set may declare so many bytes, and so many times the bytes that it takes in the file."""
FILE_SPARE_BYTES, FILE_SPARE_FACTOR = 1 << 30, 20
"""All data sets that are read of a file together may declare so much, and so many times the file."""
_DEEPEST_LINK = 16
_FILTERS = {
    h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_SZIP, h5z.FILTER_NBIT,
    h5z.FILTER_SCALEOFFSET, h5z.FILTER_LZF,
}  # fmt: skip
"""Filters that are in HDF5 itself. Others would be loaded as libraries, from a folder that the environment names."""


class UnsafeFileError(OSError):
    """An HDF5 file points outside of itself, or declares far more than it stores."""


class Guard:
    """An HDF5 file, open for reading. Raises OSError where it is missing, damaged or no file."""

    def __init__(self, path: Path) -> None:
        told = path.stat()
        if not stat.S_ISREG(told.st_mode):  # a pipe would be waited for
            raise UnsafeFileError(f"{path.name} is no file")
        self._left = FILE_SPARE_BYTES + FILE_SPARE_FACTOR * told.st_size
        self._counted: set[int] = set()
        self.hdf5 = h5py.File(path, "r")

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.hdf5.close()

    def item(self, name: str, group: h5py.Group | None = None) -> Any:
        """Return the object at a path below `group`, the file's top unless given.

        Raises KeyError when there is none, UnsafeFileError for a way that leads out of the file.
        """
        top = self.hdf5 if group is None else group
        self._check_way(top, name, _DEEPEST_LINK)
        found = top[name]
        if isinstance(found, h5py.Dataset):
            self.check(found)
        return found

    def items(self, group: h5py.Group) -> Iterator[tuple[str, Any]]:
        """Yield the names in a group with what they name. Raises as `item`."""
        for name in group:
            yield name, self.item(name, group)

    def check(self, data: h5py.Dataset) -> None:
        """Raise UnsafeFileError for a data set with values elsewhere, with foreign filters, or that is too large."""
        made = data.id.get_create_plist()
        if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
            raise UnsafeFileError(f"{data.name} has its values in other files, which are not read")
        for number in range(made.get_nfilters()):
            if made.get_filter(number)[0] not in _FILTERS:
                raise UnsafeFileError(f"{data.name} is stored with a filter of another library")
        self.check_size(data, data.shape or ())
        address = h5py.h5o.get_info(data.id).addr
        if address not in self._counted:
            self._counted.add(address)
            self._left -= math.prod(data.shape or ()) * data.id.get_type().get_size()
        if self._left < 0:
            raise UnsafeFileError("the data sets declare far more than the file stores")

    def check_size(self, data: h5py.Dataset, shape: Sequence[int]) -> None:
        """Raise UnsafeFileError where a data set, or a view of it of this shape, is far larger than what is stored."""
        declared = math.prod(shape) * data.id.get_type().get_size()
        if declared > SPARE_BYTES + SPARE_FACTOR * data.id.get_storage_size():
            stored = data.id.get_storage_size()
            raise UnsafeFileError(f"{data.name} declares {declared:,} bytes and stores {stored:,}")

    def _check_way(self, top: h5py.Group, name: str, links_left: int) -> None:
        if not isinstance(name, str):
            raise KeyError(f"{name!r} is no name")
        if name.startswith("/"):
            top = self.hdf5
        way = b""
        for part in os.fsencode(name).split(b"/"):
            if part in {b"", b"."}:
                continue
            way += b"/" + part if way else part
            if not top.id.links.exists(way):
                raise KeyError(f"{name} is not there")
            kind = top.id.links.get_info(way).type
            if kind == h5l.TYPE_SOFT:
                if not links_left:
                    raise UnsafeFileError(f"{name} is a link to itself")
                target = os.fsdecode(top.id.links.get_val(way))
                above = os.fsdecode(way.rpartition(b"/")[0])
                whole = target if target.startswith("/") or not above else f"{above}/{target}"
                self._check_way(top, whole, links_left - 1)
            elif kind != h5l.TYPE_HARD:
                raise UnsafeFileError(f"{name} is a link to another file, which is not followed")


def is_plain(data: h5py.Dataset) -> bool:
    """Tell whether a data set holds numbers of a fixed size: no texts of any length, no references."""
    kinds = {h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND}  # numbers, booleans, complex numbers
    return data.id.get_type().get_class() in kinds and data.dtype.kind in "fcbiu"


@contextmanager
def damage_as_oserror(path: Path) -> Iterator[None]:
    """Raise OSError for whatever h5py raises over a damaged file: which error depends on the byte."""
    try:
        yield
    except (OSError, KeyError):
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0][:100] or type(error).__name__
        raise OSError(f"{path.name} is damaged ({reason})") from error
