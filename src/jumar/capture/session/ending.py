"""How a process ends: `ending_of` reads it from the error that is about to end it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jumar.capture.session.tracebacks import user_traceback

Status = Literal["finished", "stopped", "exited", "raised", "interrupted"]


class Ending(NamedTuple):
    """The fields of a `RunEnd` of the same names."""

    status: Status
    exit_code: int = 0
    error: str = ""


def ending_of(error: BaseException | None) -> Ending:
    """Return how a process ends by `error`; None for a normal end."""
    cause = error.__context__ if isinstance(error, SystemExit) and error.code else error
    if isinstance(cause, Exception):
        return Ending("raised", 1, user_traceback(cause))
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted", 130)
    if isinstance(error, SystemExit):
        return Ending("exited", error.code if isinstance(error.code, int) else int(bool(error.code)))
    return Ending("finished")
