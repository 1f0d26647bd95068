"""The error of a custom operator that got arguments its documentation rules out."""

from __future__ import annotations

from jumar.errors import JumarError


class OperatorArgumentError(JumarError, RuntimeError):
    """An argument breaks the operator's documented rule. A RuntimeError too, as the real operator raises."""


def require(condition: bool, message: str) -> None:
    """Raise `OperatorArgumentError` with this sentence unless the condition holds."""
    if not condition:
        raise OperatorArgumentError(message)
