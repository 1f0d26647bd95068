"""What a graph computes from inputs that many trials share, kept beside its data file.

The reference in float64 takes several times as long as the graph itself, and every candidate of a search is
compared on the same inputs. Keeping is a convenience: where it fails, each trial computes for itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from jumar.recording.files import write_atomically
from jumar.tune.worker.rule import Expected

KEPT_BYTES = 64 << 20
"""Outputs that take more are computed again each time."""


class Recall:
    """What is expected for the inputs of each seed. Safe to use in several processes at once."""

    def __init__(self, data: Path, key: str) -> None:
        """`data` is the graph's data file, `key` the graph's; what was kept for other ones is not used."""
        found = data.stat()
        self._data = data
        self._stamp = f"{key} {found.st_size} {found.st_mtime_ns} {torch.__version__}"

    def expected(self, seed: int, compute: Callable[[], Expected]) -> Expected:
        """Return what is expected for a seed; `compute` is called when it is not kept."""
        path = self._path(seed)
        kept = self._read(path)
        if kept is not None:
            return kept
        made = compute()
        self._write(path, made)
        return made

    def knows(self, seed: int) -> bool:
        """Tell whether something is kept for a seed (which may turn out to be of other weights)."""
        return self._path(seed).exists()

    def _path(self, seed: int) -> Path:
        return self._data.with_name(f"{self._data.name}.expected-{seed}")

    def _read(self, path: Path) -> Expected | None:
        try:
            found = torch.load(path, weights_only=True)
            return Expected(found["default"], found["reference"]) if found["stamp"] == self._stamp else None
        except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
            return None

    def _write(self, path: Path, made: Expected) -> None:
        tensors = [one for one in (*made.default, *made.reference) if one is not None]
        if sum(one.untyped_storage().nbytes() for one in tensors) > KEPT_BYTES:
            return
        kept = {"stamp": self._stamp, "default": list(made.default), "reference": list(made.reference)}
        with suppress(OSError, RuntimeError):  # a full disk
            write_atomically(path, lambda part: torch.save(kept, part))
