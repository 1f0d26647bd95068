"""The compiled library, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from jumar.tune.engines.kernels.compiler import LIBRARY, check_features
from jumar.tune.engines.kernels.program import FIELDS, PLACE, Floats, Integers, Operations
from jumar.tune.model.errors import TuneError

_ROW_BYTES = len(FIELDS) * 8


class Library:
    """Runs operations of a program. Pointers of external tensors and their four strides are given at each call."""

    def __init__(self, folder: Path) -> None:
        check_features(folder)
        # PyTorch has loaded its OpenMP runtime for all to see; the library finds GOMP_parallel there.
        self._library = ctypes.CDLL(str(folder / LIBRARY))
        if self._library.jumar_op_size() != _ROW_BYTES:
            raise TuneError(f"{folder / LIBRARY} is of another version of the kernels; tune again.")
        pointer, whole, short = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
        self._run = self._library.jumar_run
        self._run.argtypes = [pointer, whole, pointer, pointer, pointer, pointer, pointer, short]
        self._run.restype = None
        self._images = self._library.jumar_run_images
        self._images.argtypes = [
            pointer, whole, pointer, whole, pointer, pointer, pointer, whole, pointer, whole, short,
        ]  # fmt: skip
        self._images.restype = None
        self._time = self._library.jumar_time
        self._time.argtypes = [pointer, pointer, pointer, pointer, short, short]
        self._time.restype = whole

    @property
    def lanes(self) -> int:
        """How many floats its vectors hold."""
        return int(self._library.jumar_lanes())


class Bound:
    """A program's operations with the memory that they work in, all of which must outlive this."""

    def __init__(self, library: Library, operations: Operations, weights: Floats, tables: Integers, arena: int) -> None:
        self._library, self._keep = library, (operations, weights, tables)
        self._first = operations.ctypes.data
        self._operations = operations
        self._common = arena, weights.ctypes.data, tables.ctypes.data

    def run(self, first: int, last: int, given: int, strides: int, num_threads: int) -> None:
        """Run operations [first, last)."""
        at = self._first + first * _ROW_BYTES
        self._library._run(at, last - first, *self._common, given, strides, num_threads)

    def run_images(
        self, first: int, last: int, arena_size: int, given: Sequence[int], strides: int, images: int, num_threads: int
    ) -> None:
        """Run operations [first, last) for every image of a batch."""
        pointers = (ctypes.c_void_p * len(given))(*given)
        arena, weights, tables = self._common
        self._library._images(
            self._first + first * _ROW_BYTES, last - first, arena, arena_size, weights, tables,
            ctypes.addressof(pointers), len(given), strides, images, num_threads,
        )  # fmt: skip

    def time_ns(self, number: int, num_threads: int, repeats: int) -> int:
        """Return the least CPU time of the longest share of operation `number`, which must use no external tensor."""
        return int(self._library._time(self._first + number * _ROW_BYTES, *self._common, num_threads, repeats))

    def field(self, number: int, name: str) -> int:
        """Return a field of an operation."""
        return int(self._operations[number, PLACE[name]])

    def set_field(self, number: int, name: str, value: int) -> None:
        """Change a field of an operation."""
        self._operations[number, PLACE[name]] = value
