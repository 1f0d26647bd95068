"""The C++ library of the kernels: compiled once a machine, kept beside the program, called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jumar.base.native import CompilerError, compiled, features
from jumar.tune.engines.kernels.program import FIELDS, PLACE, Floats, Integers, Operations, header
from jumar.tune.model.errors import TuneError

SOURCE = Path(__file__).parent / "native" / "kernels.cpp"
LIBRARY = "kernels.so"
FEATURES = "features.txt"
_WIDTHS = (("avx512f", 16), ("avx2", 8), ("asimd", 4))
"""Features of processors, and how many floats their vectors hold; the widest first."""


def widths() -> list[int]:
    """Return how many floats a vector may hold here, the widest first; 4 works everywhere."""
    known = features()
    return [width for feature, width in _WIDTHS if feature in known and width > 4] + [4]


@cache
def source_digest() -> str:
    """Return a digest of the kernels, C++ and Python."""
    files = [*SOURCE.parent.glob("*.[ch]pp"), *Path(__file__).parent.rglob("*.py")]
    parts = [header(), *(path.read_text("utf-8") for path in sorted(files))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def build_library(folder: Path, lanes: int) -> Path:
    """Leave the library for vectors of `lanes` floats in `folder`, compiled now or taken from the cache.

    Raises TuneError when there is no compiler or it fails.
    """
    flags = [f"-DJUMAR_VL={lanes}", f"-DJUMAR_NEON={int(platform.machine() == 'aarch64')}"]
    try:
        library = compiled(SOURCE, flags=flags, made={"fields.hpp": header()})
    except CompilerError as error:
        raise TuneError(str(error)) from error
    (folder / FEATURES).write_text(" ".join(sorted(features())), "utf-8")
    return Path(shutil.copyfile(library, folder / LIBRARY))


def check_features(folder: Path) -> None:
    """Raise TuneError when the library in `folder` was compiled for a processor that can do more than this one."""
    needed = (folder / FEATURES).read_text("utf-8").split()
    missing = sorted(set(needed) - features())
    if missing:
        raise TuneError(
            f"the kernels in {folder} were compiled for a processor with {', '.join(missing[:4])}, which this one has "
            "not; tune on this machine."
        )


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
