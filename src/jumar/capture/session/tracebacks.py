"""A user's traceback as Python would have printed it without Jumar in between."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

_OWN = str(Path(__file__).resolve().parents[2]) + os.sep


def user_traceback(error: BaseException) -> str:
    """Return the formatted traceback of `error` and its causes, without the frames of Jumar's own files."""
    formatted = traceback.TracebackException.from_exception(error)
    _strip(formatted, set())
    return "".join(formatted.format())


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error's traceback that are not in Jumar's own files, the innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OWN)]


def _strip(formatted: traceback.TracebackException, done: set[int]) -> None:
    if id(formatted) in done:
        return
    done.add(id(formatted))
    kept = [frame for frame in formatted.stack if not frame.filename.startswith(_OWN)]
    formatted.stack = traceback.StackSummary.from_list(kept)
    for linked in (formatted.__cause__, formatted.__context__, *(getattr(formatted, "exceptions", None) or ())):
        if linked is not None:
            _strip(linked, done)
