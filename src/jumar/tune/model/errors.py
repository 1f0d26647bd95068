"""Errors of tuning that are the caller's to mend."""

from __future__ import annotations

from jumar.base.errors import JumarError


class TuneError(JumarError):
    """A task, a provider or the worker cannot be used as asked; the message says what to do next."""


class BankError(JumarError):
    """The knowledge bank is missing, foreign, of a newer schema, or cannot be written."""


class NoBankError(BankError):
    """There is no bank at a place, and none was to be made."""
