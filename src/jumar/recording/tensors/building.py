"""Builds the structure of a tensor file with HDF5's own calls. Imports h5py.

Room is made for arrays, and they are written afterwards; where, `Builder.places` tells.
NOTE: h5py's groups and data sets take three times as long for a file of a few thousand names (measured).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5o, h5p, h5s, h5t

VIEW_OF = "view_of"
"""Attribute of a data set that says what it is a view of."""
DTYPE = "dtype"
"""Attribute of a data set with PyTorch's name of its dtype."""


class Builder:
    """Adds data sets and links to an open, empty file; `close` it before the file."""

    def __init__(self, file: h5py.File) -> None:
        self._root = h5g.open(file.id, b"/")
        self._known: dict[str, Any] = {}
        self._with_groups = h5p.create(h5p.LINK_CREATE)
        self._with_groups.set_create_intermediate_group(True)
        self._with_groups.set_char_encoding(h5t.CSET_UTF8)
        self._settings = h5p.create(h5p.DATASET_CREATE)
        self._settings.set_obj_track_times(False)
        self._with_room = self._settings.copy()
        self._with_room.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        self._with_room.set_fill_time(h5d.FILL_TIME_NEVER)
        self.places: list[int | None] = []
        """Where in the file each array goes, in the order of `add_array`; None for one without elements."""

    def add_array(self, place: str, dtype: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Make room for an array of elements `kind` at the path `place`."""
        data = self._create(place, dtype, kind, shape, self._with_room)
        self.places.append(data.get_offset())

    def add_view(self, place: str, dtype: str, base: str, numbers: Sequence[int]) -> None:
        """Add a view, `numbers` as documented in `jumar.recording.tensors.arrays`, of the array at the path `base`."""
        data = self._create(place, dtype, np.dtype(np.int64), (len(numbers),), self._settings)
        data.write(h5s.ALL, h5s.ALL, np.array(numbers, np.int64))
        _set_text(data, VIEW_OF, base)

    def add_link(self, place: str, known: str) -> None:
        """Give what is at the path `known` another path."""
        h5o.link(self._known[known], self._root, place.encode(), lcpl=self._with_groups)

    def close(self) -> None:
        """Let go of the file."""
        self._known.clear()
        self._root = None

    def _create(self, place: str, dtype: str, kind: np.dtype[Any], shape: tuple[int, ...], settings: Any) -> Any:
        data = h5d.create(self._root, None, _type_of(kind), h5s.create_simple(shape) if shape else _scalar(), settings)
        h5o.link(data, self._root, place.encode(), lcpl=self._with_groups)
        _set_text(data, DTYPE, dtype)
        self._known[place] = data
        return data


def _set_text(data: Any, name: str, text: str) -> None:
    h5a.create(data, name.encode(), _type_of(_TEXT), _scalar()).write(np.array(text, _TEXT))


_TEXT = h5py.string_dtype()


@cache
def _scalar() -> Any:
    return h5s.create(h5s.SCALAR)


@cache
def _type_of(kind: np.dtype[Any]) -> Any:
    return h5t.py_create(kind, logical=True)
