"""The rule registry: every finding's code leads to one file that documents it.

A rule is a module with a docstring under fixed headings and a module-level `RULE = Rule(...)`. A
room lists its rules in the `RULES` tuple of its `rules` package; `Registry` joins the rooms. This
module knows no room (arrows go one way): the command line hands the rooms to the registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from jumar.findings import Edit, Finding, Json, Location, Safety, Severity

HEADINGS = ("What it does", "Why it matters", "Example", "Use instead", "Fix safety", "References")
"""Headings every rule's documentation has, in this order (each on a line of its own, after `## `)."""

CODE_PATTERN = re.compile(r"JM[1-9][0-9]{2}")

Lifecycle = Literal["preview", "stable", "deprecated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is fixed about a rule: its stable code, its name after the pattern it sees, its page.

    Codes by room: JM1xx migrate, JM2xx assess, JM3xx accuracy, JM4xx performance, JM5xx tune,
    JM6xx amp, JM7xx export, JM8xx doctor, JM9xx capture and port.
    """

    code: str
    name: str
    """Kebab-case name of the pattern (not of the remedy), e.g. `cuda-device-string`."""
    summary: str
    """One sentence for tables."""
    severity: Severity
    doc: str
    """Markdown with the `HEADINGS`; pass the module's `__doc__`."""
    safety: Safety | None = None
    """Safety of the rule's edits; None when it makes none."""
    lifecycle: Lifecycle = "stable"
    opt_in: bool = False
    """Whether the rule is applied only where it is asked for by code or name."""

    def __post_init__(self) -> None:
        if not CODE_PATTERN.fullmatch(self.code):
            raise ValueError(f"a rule code must look like JM101; got {self.code!r}")

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


class Registry:
    """Rules by code. Raises ValueError when two rules share a code or a name."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_code: dict[str, Rule] = {}
        names: set[str] = set()
        for rule in rules:
            if rule.code in self._by_code or rule.name in names:
                raise ValueError(f"rule {rule.code} {rule.name} is registered twice")
            self._by_code[rule.code] = rule
            names.add(rule.name)

    def __iter__(self) -> Iterator[Rule]:
        """Rules in the order of their codes."""
        return iter(sorted(self._by_code.values(), key=lambda rule: rule.code))

    def __len__(self) -> int:
        return len(self._by_code)

    def find(self, code_or_name: str) -> Rule | None:
        """Return the rule with this code (any case) or name, or None."""
        by_code = self._by_code.get(code_or_name.upper())
        if by_code is not None:
            return by_code
        return next((rule for rule in self if rule.name == code_or_name.lower()), None)
