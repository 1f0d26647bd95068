"""Appends the steps of one rank to its history: `HistoryWriter`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumar.base.files import append
from jumar.recording.history.frames import frame
from jumar.recording.history.model import HistoryStep, Place
from jumar.recording.schema import history_file

FLUSH_S = 2.0
"""A killed process leaves what it wrote to the system; only a machine that fails loses this many seconds."""


class HistoryWriter:
    """Writes `history-rank-R.bin`. Raises OSError as the system does (a full disk)."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._handle = os.open(folder / history_file(rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        self._numbers: dict[tuple[Place, ...], int] = {}
        self._last: tuple[tuple[Place, ...] | None, int] = None, 0
        self._settings: dict[str, dict[str, Any]] = {}
        self._rng: dict[str, str] = {}
        self._flushed = time.monotonic()
        self.num_bytes = 0
        """Written so far."""

    def write(self, step: HistoryStep) -> None:
        """Append one step."""
        number, data = self._number(step.places)
        header: dict[str, Any] = {"kind": "step", "step": step.step, "of": number, "calls": step.calls}
        if changed := _changed(self._settings, step.settings):
            header["settings"] = changed
        if rng := {name: digest for name, digest in step.rng.items() if self._rng.get(name) != digest}:
            header["rng"] = rng
            self._rng.update(rng)
        self._put(data + frame(header, step.values.astype("<f4", copy=False).tobytes()))

    def _number(self, places: tuple[Place, ...]) -> tuple[int, bytes]:
        """Return the number of these places, and the frame that says so when they are new."""
        if places is self._last[0]:  # NOTE: the hash of hundreds of places takes longer than to write the step
            return self._last[1], b""
        number, data = self._numbers.get(places), b""
        if number is None:
            number = self._numbers[places] = len(self._numbers)
            listed = [[place.role, place.owner, place.name, place.slot, place.shape, place.order] for place in places]
            data = frame({"kind": "places", "number": number, "places": listed})
        self._last = places, number
        return number, data

    def close(self) -> None:
        """Flush the file to the disk and close it."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            try:
                append(handle, b"")
            finally:
                os.close(handle)

    def _put(self, data: bytes) -> None:
        self.num_bytes += len(data)
        now = time.monotonic()
        if now - self._flushed > FLUSH_S:
            self._flushed = now
            append(self._handle, data)
            return
        while data:
            data = data[os.write(self._handle, data) :]


def _changed(known: dict[str, dict[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings that `known` has not, or has otherwise, and note them there."""
    changed: dict[str, dict[str, Any]] = {}
    for owner, values in settings.items():
        of_owner = known.setdefault(owner, {})
        for name, value in values.items():
            if name not in of_owner or of_owner[name] != value:
                of_owner[name] = value
                changed.setdefault(owner, {})[name] = value
    return changed
