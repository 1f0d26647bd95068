"""Opens recordings and dumps of other tools: `opened`. The content of a path decides the format, not its name alone."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import RecordingError
from jumar.recording.reader import Recording, RecordingLike
from jumar.recording.schema import RUN_FILE

if TYPE_CHECKING:
    from jumar.recording.foreign.dump import Dump, DumpFormat

_BUILT_IN = ("hdf5", "msprobe", "troubleshooter", "npy", "checkpoints")
"""Modules of `formats`, in the order in which they are asked."""

ENTRY_POINTS = "jumar.dump_formats"
"""Group of entry points; each names a `DumpFormat` of another distribution."""


def opened(recording: str | Path | RecordingLike) -> RecordingLike:
    """Return the recording; a path is opened, be it a recording or a dump of another tool. Raises RecordingError."""
    if not isinstance(recording, str | Path):
        return recording
    return open_foreign(Path(recording)) or Recording.open(recording)


def formats() -> Iterator[DumpFormat]:
    """Yield every format that Jumar reads: the built-in ones, then those of other distributions."""
    for name in _BUILT_IN:
        yield import_module(f"jumar.recording.foreign.formats.{name}").FORMAT
    for entry in entry_points(group=ENTRY_POINTS):
        yield entry.load()


def open_foreign(path: Path) -> Dump | None:
    """Return the dump at `path`; None where a Jumar recording is there, or nothing.

    Raises RecordingError, in one sentence, for a file of no known format and for one that is cut short, damaged or
    holds code. Nothing that is in a file is ever run.
    """
    if not path.exists() or (path / RUN_FILE).is_file():
        return None
    asked = []
    for known in formats():
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
