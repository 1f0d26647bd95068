"""The error tree.

Every error a user can cause is a `JumarError`: the command line prints its one sentence (the rule
that was broken, the actual value, the next action) and exits with code 2, without a traceback.
Anything else is a defect of Jumar and keeps its traceback (exit code 3).
"""

from __future__ import annotations


class JumarError(Exception):
    """Base of every error that the caller can mend. The message is one sentence and says what to do next."""


class UsageError(JumarError):
    """An option or argument breaks its documented rule."""


class InputError(JumarError):
    """A file or folder the user named is missing, unreadable, or not what the command takes."""


class OutputError(JumarError):
    """The place to write to cannot be written, or holds something that must not be overwritten."""


class RecordingError(JumarError):
    """A recording is missing, cut short, foreign, or of a newer schema than this Jumar reads."""


class DeviceError(JumarError):
    """A device, SoC or backend that was asked for is unknown or cannot be brought up here."""


class ScriptError(JumarError):
    """The user's script could not be run at all (it does not parse, or it is not a file)."""
