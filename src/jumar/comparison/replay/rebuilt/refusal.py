"""`NotReplayable`: why a recorded call cannot be executed again."""

from __future__ import annotations

from typing import Literal

from jumar.base.errors import JumarError

Cause = Literal[
    "not recorded",
    "random",
    "collective",
    "uninitialised",
    "no tensor result",
    "unknown operator",
    "no kernel",
    "other",
]
"""Why calls cannot be re-executed. `not recorded`: a tensor or argument is not in the recording; `no kernel`: the
operator does not run on the device of the replay."""


class NotReplayable(JumarError):
    """A call that cannot be re-executed; `cause` is the word it is counted under."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause: Cause = cause
