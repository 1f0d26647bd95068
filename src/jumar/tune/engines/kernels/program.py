"""A program: operations with every address fixed, and the two tables of numbers that they read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.tune.engines.kernels.fields import FIELDS

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]
Operations = npt.NDArray[np.int64]


@dataclass(slots=True)
class Blob:
    """Numbers one after the other; every entry begins at a multiple of 16."""

    dtype: type[np.float32] | type[np.int32]
    size: int = 0
    parts: list[npt.NDArray[Any]] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)

    def put(self, values: npt.ArrayLike) -> int:
        """Append values (or find equal ones, when they are few) and return where they begin."""
        flat = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1)
        key = flat.tobytes() if flat.size <= 1 << 16 else b""
        if key and key in self.known:
            return self.known[key]
        place, room = self.size, -(-flat.size // 16) * 16
        self.parts.append(np.pad(flat, (0, room - flat.size)))
        self.size += room
        if key:
            self.known[key] = place
        return place

    def joined(self) -> npt.NDArray[Any]:
        """Return all of it, and room at the end that kernels may read ahead into."""
        return np.concatenate([*self.parts, np.zeros(64, self.dtype)])


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
        weights = np.load(folder / "weights.npy", allow_pickle=False)
        return cls(**arrays, weights=weights, arena_size=data["arena_size"], script=data["script"])
