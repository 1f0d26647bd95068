"""`Signature`: one known error as data: how to recognise it, what it means, what to do, who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jumar.base.findings import Severity

Kind = Literal["message", "code", "return-code"]
Role = Literal["cause", "symptom", "wrapper", "consequence", "harmless"]
"""Meaning of a line: the cause itself; what the cause led to; that a call failed (another line gives the reason);
that another rank or process failed; harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One known error: how to recognise it, what it means, what to do, and where that is written."""

    name: str
    kind: Kind
    pattern: str
    title: str
    cause: str
    action: str
    source: str
    example: str
    severity: Severity = Severity.ERROR
    role: Role = "cause"
    needle: str = ""
    """Text that every matching line contains: a fast test before the expression (messages only)."""
    over: tuple[str, ...] = ()
    """Names of entries of the same role that this one explains: it leads when both stand in one incident."""
