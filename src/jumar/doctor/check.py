"""What a check of the environment is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumar.doctor.host import Host
from jumar.findings import Finding
from jumar.rules import Rule


@dataclass(frozen=True, slots=True)
class NotChecked:
    """The check could not be made on this machine; that is not the same as "fine"."""

    reason: str
    """One sentence: what is missing here."""


Outcome = Sequence[Finding] | NotChecked
"""The findings (none: checked and fine), or why it could not be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A rule and its mechanism: a pure function of the host's description."""

    rule: Rule
    look: Callable[[Host], Outcome]
