"""Files that are whole or not there, and one sentence where the disk refuses them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from jumar.errors import OutputError
from jumar.recording.files import write_atomically


def write(file: Path, data: bytes) -> None:
    """Write `data` as `file`, replacing one of that name. Raises OutputError in one sentence where that fails."""
    produce(file, lambda part: part.write_bytes(data))


def produce(file: Path, writer: Callable[[Path], object]) -> None:
    """Let `writer` write a file under another name, then give it its own.

    Raises OutputError where the folder cannot be written or the disk is full; nothing half-written is left.
    """

    def fill(part: Path) -> None:
        writer(part)

    with explained(file):
        write_atomically(file, fill)


def folder(path: Path) -> Path:
    """Make a folder, its parents included, and return it. Raises OutputError where that cannot be done."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system says about `path` into an OutputError."""
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        raise OutputError(
            f"{path} must be written, and the system says {what!r}: free some space or choose another folder."
        ) from error
