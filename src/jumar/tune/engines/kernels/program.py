"""A program: operations with every address fixed, and the two tables of numbers that they read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.tune.model.errors import TuneError

CODES = (
    "LOAD", "STORE", "HALO", "PHASES", "PHASE_PLANES", "PRODUCT", "DEPTHWISE", "WINOGRAD", "FUSED", "POOL", "MEAN",
    "GATHER", "BINARY", "TILES_IN", "TILES_OUT", "DEPTHWISE_PLANES",
    "GELU",
)  # fmt: skip
FIELDS = (
    "code", "barrier", "tensor", "tensor_out", "images", "channels", "groups", "blocks", "in_blocks",
    "in", "in_image", "in_block", "in_row", "in_h", "in_w",
    "out", "out_image", "out_block", "out_row", "out_h", "out_w", "out_at",
    "other", "other_image", "other_block", "other_row", "other_step", "other_at",
    "weight", "bias", "clamp", "zeros", "post", "kind", "offsets", "depth", "rows", "row", "chunk", "part", "nr",
    "planes", "kh", "kw", "sy", "sx", "dy", "dx", "top", "left", "bottom", "right", "phases", "plane",
    "scratch", "scratch_size", "band", "min_tiles", "maximum", "divisor", "count_padding",
)  # fmt: skip
"""Of `struct Op`: 64-bit whole numbers. Addresses are in floats from the start of the arena, of the weights
(`weight`, `bias`, `clamp`, `zeros`) or of the tables (`offsets`, `out_at`, `other_at`)."""
PLACE = {name: number for number, name in enumerate(FIELDS)}


def header() -> str:
    """Return the text of `fields.hpp`."""
    codes, fields = ", ".join(f"CODE_{code}" for code in CODES), ", ".join(FIELDS)
    return f"#pragma once\n#include <cstdint>\nenum Code {{ {codes} }};\nstruct Op {{ int64_t {fields}; }};\n"


Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]
Operations = npt.NDArray[np.int64]

ROOM = 64
"""Numbers at the end of all memory, into which kernels may read ahead."""
LINE_BYTES, HUGE_BYTES = 64, 1 << 21
"""Of a cache line, and of a huge page. NumPy asks the system for huge pages where an array is of 4 MiB or more."""


def aligned(size: int, dtype: type[np.float32] | type[np.int32]) -> npt.NDArray[Any]:
    """Return memory for so many numbers, at the beginning of a cache line, of a huge page where it fills one.

    NumPy's own is 16 bytes behind one: every load of 64 bytes, and every second one of 32, would touch two lines.
    """
    num_bytes = size * np.dtype(dtype).itemsize
    unit = HUGE_BYTES if num_bytes >= HUGE_BYTES else LINE_BYTES
    memory = np.empty(num_bytes + unit, np.uint8)
    start = -memory.ctypes.data % unit
    return memory[start : start + num_bytes].view(dtype)


@dataclass(slots=True)
class Blob:
    """Numbers one after the other; every entry begins at a multiple of 16."""

    dtype: type[np.float32] | type[np.int32]
    size: int = 0
    parts: list[npt.NDArray[Any]] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)

    def put(self, values: npt.ArrayLike, *, shared: bool = True) -> int:
        """Append values (or find equal ones, when they are few) and return where they begin.

        Not `shared` is what the search packs anew: two products of equal weights may have panels of different widths.
        Raises TuneError for an offset that has no room in 32 bits.
        """
        given = np.asarray(values)
        if self.dtype is np.int32 and given.size and np.abs(given).max() > np.iinfo(np.int32).max:
            raise TuneError("a value has more than the 2^31 numbers that the kernels can address; cut the batch.")
        flat = np.ascontiguousarray(given, dtype=self.dtype).reshape(-1)
        key = flat.tobytes() if shared and flat.size <= 1 << 16 else b""
        if key and key in self.known:
            return self.known[key]
        place, room = self.size, -(-flat.size // 16) * 16
        self.parts.append(np.pad(flat, (0, room - flat.size)))
        self.size += room
        if key:
            self.known[key] = place
        return place

    def joined(self) -> npt.NDArray[Any]:
        """Return all of it, and room at the end."""
        parts = [*self.parts, np.zeros(ROOM, self.dtype)]
        return np.concatenate(parts, out=aligned(sum(part.size for part in parts), self.dtype))


@dataclass(slots=True, kw_only=True)
class Program:
    """What the library needs to compute a graph; how it is called is in `script`."""

    operations: Operations
    """[number of operations, fields]."""
    weights: Floats
    tables: Integers
    arena_size: int
    """In floats."""
    script: Mapping[str, Any]

    def save(self, folder: Path) -> None:
        """Write it to `folder`."""
        for name in ("operations", "weights", "tables"):
            np.save(folder / f"{name}.npy", getattr(self, name), allow_pickle=False)
        script = {"arena_size": self.arena_size, "script": self.script, "fields": FIELDS}
        (folder / "script.json").write_text(json.dumps(script), "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Program:
        """Read what `save` wrote. Raises OSError, ValueError or KeyError when it is not there or another's."""
        data = json.loads((folder / "script.json").read_text("utf-8"))
        if tuple(data["fields"]) != FIELDS:
            raise ValueError(f"{folder} was written by another version of the kernels")
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("operations", "tables")}
        stored = np.load(folder / "weights.npy", mmap_mode="r", allow_pickle=False)
        if stored.dtype != np.float32 or stored.ndim != 1:
            raise ValueError(f"{folder} holds weights of type {stored.dtype}, not float32")
        weights = aligned(stored.size, np.float32)
        weights[:] = stored
        return cls(**arrays, weights=weights, arena_size=data["arena_size"], script=data["script"])
