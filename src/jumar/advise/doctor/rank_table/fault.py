"""`Fault`: a rule that a rank table breaks."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.findings import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A broken rule: the rule with the value found, and what to do."""

    message: str
    action: str
    severity: Severity = Severity.ERROR
