"""The files that `jumar tune` writes. It replaces only what an interrupted run of its own left there.

Such a run says that the same command goes on, so its artefact and its page name what was tuned; the command that tunes
the same replaces them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jumar.base.errors import InputError, OutputError

GENERATOR = '<meta name="generator" content="Jumar '


def check_place(path: Path, option: str, is_own: Callable[[Path], bool]) -> None:
    """Refuse, before an hour of tuning, a file that could not be written after it. Raises OutputError.

    `is_own` says whether an existing file may be replaced.
    """
    if path.is_symlink() or (path.exists() and not is_own(path)):
        raise OutputError(f"{path} exists and is not replaced; choose another name for {option}.")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path.absolute().parent} must be a folder that can be written to; choose another {option}.")


def is_open_artefact(path: Path, source: str) -> bool:
    """Tell whether a file is an artefact that was written when the tuning of `source` was cut short."""
    from jumar.tune.artefact.loading import read_manifest

    try:
        return read_manifest(path).open_for == source
    except (InputError, OSError):
        return False


def is_open_page(path: Path, source: str) -> bool:
    """Tell whether a file is a page that was written when the tuning of `source` was cut short."""
    from markupsafe import escape

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return GENERATOR in text and str(escape(open_footer(source))) in text


def open_footer(source: str) -> str:
    """Return the last sentence of a page of a run that was cut short."""
    return f"The tuning of {source} was cut short: the same command goes on, and replaces this page."
