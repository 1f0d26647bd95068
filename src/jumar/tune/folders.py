"""Folders and files that a user names, with `~` for a home folder."""

from __future__ import annotations

from pathlib import Path

from jumar.errors import JumarError


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
