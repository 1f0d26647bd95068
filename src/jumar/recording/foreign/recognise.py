"""Opens recordings and dumps of other tools: `opened`. The content of a path decides the format, not its name alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import RecordingError
from jumar.base.plugins import Group, instance_of
from jumar.recording.reader import Recording, RecordingLike
from jumar.recording.schema import RUN_FILE

if TYPE_CHECKING:
    from jumar.recording.foreign.dump import Dump, DumpFormat

_BUILT_IN = ("hdf5", "msprobe", "troubleshooter", "mindspore.dump", "mindspore.ir", "collected", "npy", "checkpoints")
"""Modules of `formats`, in the order in which they are asked."""


@cache
def installed_formats() -> Group[DumpFormat]:
    """Return the formats of other distributions: an entry point names a `DumpFormat`."""
    from jumar.recording.foreign.dump import DumpFormat

    names = [known.name for known in built_in_formats()]
    return Group("dump-format", instance_of(DumpFormat), lambda known: (known.name,), lambda: names)


def opened(recording: str | Path | RecordingLike) -> RecordingLike:
    """Return the recording; a path is opened, be it a recording or a dump of another tool. Raises RecordingError."""
    if not isinstance(recording, str | Path):
        return recording
    return open_foreign(Path(recording)) or Recording.open(recording)


def formats() -> Iterator[DumpFormat]:
    """Yield every format that is read here: the built-in ones, then those of other distributions."""
    yield from built_in_formats()
    yield from installed_formats().parts()


def built_in_formats() -> Iterator[DumpFormat]:
    """Yield the built-in formats in the order in which they are asked."""
    for name in _BUILT_IN:
        yield import_module(f"jumar.recording.foreign.formats.{name}").FORMAT


def open_foreign(path: Path) -> Dump | None:
    """Return the dump at `path`; None where a Jumar recording is there, or nothing.

    Raises RecordingError, in one sentence, for a file of no known format and for one that is cut short, damaged or
    holds code. Nothing that is in a file is ever run.
    """
    if not path.exists() or (path / RUN_FILE).is_file():
        return None
    from jumar.recording.foreign.dump import damage_told

    asked = []
    for known in formats():
        with damage_told(path, known.name):
            if known.recognises(path):
                return known.read(path)
        asked.append(known.name)
    from jumar.recording.foreign.formats.npy import refuse_raw

    refuse_raw(path)
    if path.is_dir():
        return None
    names = f"{', '.join(asked[:-1])} or {asked[-1]}"
    empty = " It is empty." if not path.stat().st_size else ""
    raise RecordingError(f"{path} is not a recording, {names}, or it is cut short.{empty} Name one of these.")
