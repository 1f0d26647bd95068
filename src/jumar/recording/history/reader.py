"""Reads the history of a run: `History`. Steps are read one at a time, so memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jumar.recording.history.frames import DamagedError, frames
from jumar.recording.history.model import NUM_VALUES, ROLES, HistoryStep, Place, Settings
from jumar.recording.schema import history_file

SPARE_NAMES, BYTES_PER_NAME = 1 << 18, 2
"""What is held of the settings and random numbers of all steps together: so many names, and one for so many bytes of
the file. A frame says what changed, so that few bytes can stand for many names in each step."""
_LAST_STEP = 1 << 63


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a step's values are, and what its header says."""

    places: tuple[Place, ...]
    offset: int
    settings: Settings
    calls: Mapping[str, int]
    rng: Mapping[str, str]


class History:
    """The history of one rank. `warning` says what is damaged, empty when nothing is."""

    def __init__(self, path: Path, entries: dict[int, _Entry], warning: str = "") -> None:
        self.path = path
        self.warning = warning
        self._entries = entries

    @classmethod
    def open(cls, folder: Path, rank: int = 0) -> History | None:
        """Return the history of `rank` in the recording at `folder`; None where there is none.

        What follows a damaged frame is left out.
        """
        path = folder / history_file(rank)
        entries: dict[int, _Entry] = {}
        warning = ""
        try:
            with path.open("rb") as file:
                reading = _Reading(path.stat().st_size)
                for header, offset, size in frames(file):
                    reading.take(header, offset, size, entries)
        except FileNotFoundError:
            return None
        except DamagedError:
            last = max(entries, default=None)
            warning = f"{path.name} is cut short or damaged" + (
                f" after step {last}" if last is not None else " and holds no step"
            )
        except OSError as error:
            warning = f"{path.name} cannot be read ({error.strerror})"
        return cls(path, dict(sorted(entries.items())), warning)

    @property
    def steps(self) -> list[int]:
        """Steps in order."""
        return list(self._entries)

    def read(self, step: int) -> HistoryStep:
        """Return one step. Raises KeyError when the history has none of that number, OSError when it is gone."""
        entry = self._entries[step]
        shape = (len(entry.places), NUM_VALUES)
        values = np.fromfile(self.path, "<f4", shape[0] * shape[1], offset=entry.offset)
        return HistoryStep(
            step=step,
            settings=entry.settings,
            calls=entry.calls,
            rng=entry.rng,
            places=entry.places,
            values=values.reshape(shape),
        )

    def __iter__(self) -> Iterator[HistoryStep]:
        """Yield the steps in order."""
        return map(self.read, self._entries)

    def settings(self, step: int) -> Settings:
        """Return the settings of a step without reading its values."""
        return self._entries[step].settings


class _Reading:
    """What the frames so far have said."""

    def __init__(self, size_bytes: int) -> None:
        self._names_left = SPARE_NAMES + size_bytes // BYTES_PER_NAME
        self._places: dict[int, tuple[Place, ...]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._rng: dict[str, str] = {}

    def take(self, header: dict[str, Any], offset: int, size: int, entries: dict[int, _Entry]) -> None:
        """Add a frame to the entries. Raises DamagedError when it is not one that the writer makes."""
        try:
            if header["kind"] == "places":
                self._places[int(header["number"])] = tuple(map(_place, header["places"]))
            elif header["kind"] == "step":
                entries[_step(header["step"])] = self._entry(header, offset, size)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedError from error

    def _entry(self, header: dict[str, Any], offset: int, size: int) -> _Entry:
        places = self._places[header["of"]]
        if size != 4 * NUM_VALUES * len(places):
            raise ValueError(size)
        if changed := header.get("settings"):
            settings = dict(self._settings)
            for owner, values in changed.items():
                settings[owner] = {**settings.get(owner, {}), **values}
                self._count(settings[owner])
            self._settings = settings
            self._count(settings)
        if rng := header.get("rng"):
            self._rng = {**self._rng, **{str(name): str(digest) for name, digest in rng.items()}}
            self._count(self._rng)
        calls = {str(name): int(number) for name, number in header["calls"].items()}
        return _Entry(places, offset, self._settings, calls, self._rng)

    def _count(self, made: Mapping[str, Any]) -> None:
        """Count the names of a table that is held from now on. Raises ValueError when all together are too many."""
        self._names_left -= len(made)
        if self._names_left < 0:
            raise ValueError(len(made))


def _step(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _LAST_STEP:
        raise ValueError(number)
    return number


def _place(item: Any) -> Place:
    role, owner, name, slot, shape, order = item
    if role not in ROLES:
        raise ValueError(role)
    return Place(role, str(owner), str(name), str(slot), tuple(map(int, shape)), str(order))
