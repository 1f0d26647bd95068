"""Where an export is written: whole or not at all, and never over the user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jumar.errors import InputError, OutputError
from jumar.recording.files import write_atomically


def check_input(path: Path) -> None:
    """Raise InputError when `path` is not a file."""
    if path.is_dir():
        raise InputError(f"{path} must be a checkpoint file, and it is a folder; name the file in it.")
    if not path.exists():
        raise InputError(f"{path} does not exist; name a checkpoint that torch.save wrote.")


def check_output(path: Path, force: bool) -> None:
    """Raise OutputError when `path` must not or cannot be written, before any work is done."""
    if path.is_dir():
        raise OutputError(f"{path} must be a file to write to, and it is a folder; name a file in it.")
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"{path} exists and is not replaced; choose another name or pass --force.")


def write_checked(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill and verify a file that then becomes `path`. Raises OutputError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path} cannot be written ({reason}); choose a place you can write to.") from error
