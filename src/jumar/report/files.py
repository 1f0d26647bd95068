"""Writing a result where the user asked for it: all of it or nothing, and never over the user's own file."""

from __future__ import annotations

import os
from pathlib import Path

from jumar.errors import OutputError


def write_text(path: str | Path, text: str, force: bool = False) -> None:
    """Write `text` as UTF-8 to `path`, making missing folders; a reader sees the old file or the whole new one.

    What UTF-8 cannot hold (half of a surrogate pair from an odd file name) is written as `\\udc80`.
    Raises OutputError when `path` exists and `force` is False, or cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise OutputError(f"{path} must be a file to write to, and it is a folder; name a file in it.")
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"{path} exists and is not replaced; choose another name or pass --force.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_through_temporary(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path} cannot be written ({reason}); choose a place you can write to.") from error


def _write_through_temporary(path: Path, data: bytes) -> None:
    # Beside the target, because a rename is atomic only within a file system.
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
