"""`Rule`: the fixed facts of a rule, and `RuleModule`: the protocol of the file that holds it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from jumar.base.findings import Edit, Finding, Json, Location, Safety, Severity

HEADINGS = ("What it does", "Why it matters", "Example", "Use instead", "Fix safety", "References")
"""Headings every rule's documentation has, in this order (each on a line of its own, after `## `)."""

CODE_PATTERN = re.compile(r"[A-Z]{2,8}[1-9][0-9]{2}")
"""Jumar's own codes begin with JM. Rules of other distributions have letters of their own (`ACME101`)."""

Lifecycle = Literal["preview", "stable", "deprecated"]

SubjectT_contra = TypeVar("SubjectT_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is fixed about a rule: its stable code, its name after the pattern it sees, its page.

    Codes by subject, which the first digit tells: JM1xx conversion, JM2xx assessment, JM3xx comparison, JM4xx
    performance, JM5xx tuning, JM6xx mixed precision, JM7xx export, JM8xx machines and logs, JM9xx runs.
    """

    code: str
    name: str
    """Kebab-case name of the pattern (not of the remedy), e.g. `cuda-device-string`."""
    summary: str
    """One sentence for tables."""
    severity: Severity
    doc: str
    """Markdown with the `HEADINGS`; pass the module's `__doc__`. Empty in a rule of the index: see `documentation`."""
    safety: Safety | None = None
    """Safety of the rule's edits; None when it makes none."""
    lifecycle: Lifecycle = "stable"
    opt_in: bool = False
    """Whether the rule is applied only where it is asked for by code or name."""

    def __post_init__(self) -> None:
        if not CODE_PATTERN.fullmatch(self.code):
            raise ValueError(f"a rule code must look like JM101 or ACME101; got {self.code!r}")

    def finding(
        self,
        message: str,
        *,
        where: Location | None = None,
        evidence: Mapping[str, Json] | None = None,
        action: str = "",
        why: str = "",
        edit: Edit | None = None,
        severity: Severity | None = None,
        confidence: Literal["certain", "likely", "possible"] = "certain",
    ) -> Finding:
        """Return a `Finding` of this rule; `severity` overrides the rule's own for this place."""
        return Finding(
            code=self.code,
            severity=self.severity if severity is None else severity,
            message=message,
            where=where or Location(),
            evidence=dict(evidence or {}),
            why=why,
            action=action,
            edit=edit,
            confidence=confidence,
        )


class Find(Protocol[SubjectT_contra]):
    """What looks for one rule's pattern: it is given the room's subject and yields a finding for each place."""

    def __call__(self, subject: SubjectT_contra, /) -> Iterable[Finding]:
        """Yield the findings of `subject`; none means that the pattern does not occur."""
        ...


class RuleModule(Protocol[SubjectT_contra]):
    """A module that holds one rule. Where an engine makes the findings, the module has no `find`."""

    RULE: Rule

    @property
    def find(self) -> Find[SubjectT_contra]:
        """The rule's own search."""
        ...
