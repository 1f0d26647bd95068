"""Files that are either whole or absent: written under a temporary name, then renamed into place."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

TEMPORARY_SUFFIX = ".part"
"""Ending of a file that is being written; readers never look at such files."""


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to the disk and rename it to `path`.

    A process killed at any moment leaves the old `path` (or none), never half of the new one. Raises
    OSError when the disk is full or cannot be written; the temporary file is then removed.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_text_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all. Raises OSError."""
    write_atomically(path, lambda part: _write_text(part, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
