"""Folders and files that a user names, with `~` for a home folder; the folder for temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from jumar.errors import JumarError
from jumar.tune.errors import TuneError


def expanded(text: str, source: str, error: type[JumarError]) -> Path:
    """Return the path that `source` names, with `~` and `~user` replaced.

    Raises `error` where nobody knows that home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as problem:
        raise error(
            f"{source} must begin with a home folder that is known, or with none; got {text}. Write the path in full."
        ) from problem


def temporary_folder() -> Path:
    """Return the folder for temporary files. Raises TuneError, in one sentence, where none can be written to."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise TuneError(
            "tuning needs a folder for temporary files, and neither TMPDIR, /tmp, /var/tmp nor the working folder can "
            "be written to: each is missing, read-only or full. Free space there, or set TMPDIR to another."
        ) from error
