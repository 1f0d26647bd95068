"""`NotChecked`: the answer of a rule that could not look, and the modules of a package of rules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jumar.base.findings import Finding
from jumar.base.rules import Rule, RuleModule, installed_modules


@dataclass(frozen=True, slots=True, kw_only=True)
class NotChecked:
    """A rule, or a part of one, that could not be checked. It never means that all is well."""

    code: str
    name: str
    reason: str
    """One sentence: what is missing, and how to get it."""
    partly: bool = False
    """Whether the rest of the rule was checked."""

    def to_json(self) -> dict[str, str]:
        """Return the code, the name and the reason."""
        return {"code": self.code, "name": self.name, "reason": self.reason}


Outcomes = Iterable[Finding | NotChecked]
"""What `find` of a rule module answers; nothing means that it looked and found nothing."""


def not_checked(rule: Rule, reason: str, *, partly: bool = False) -> NotChecked:
    """Return the answer of `rule` that it could not be checked, or a part of it."""
    return NotChecked(code=rule.code, name=rule.name, reason=reason, partly=partly)


def finders(room: str) -> tuple[RuleModule[Any], ...]:
    """Import the rules that look for something themselves in `room` (`advise.doctor`); return them by code.

    Rules of other distributions for this room come after Jumar's.
    """
    return (*_own_finders(room), *installed_modules(room))


@cache
def _own_finders(room: str) -> tuple[RuleModule[Any], ...]:
    package = f"jumar.{room}.rules"
    folder = importlib.import_module(package).__path__
    modules = [importlib.import_module(f"{package}.{item.name}") for item in pkgutil.iter_modules(folder)]
    own: list[Any] = [module for module in modules if hasattr(module, "find")]
    return tuple(sorted(own, key=lambda module: str(module.RULE.code)))


def split(outcomes: Outcomes) -> tuple[list[Finding], list[NotChecked]]:
    """Return the findings, and what was not checked."""
    findings: list[Finding] = []
    gaps: list[NotChecked] = []
    for outcome in outcomes:
        if isinstance(outcome, Finding):
            findings.append(outcome)
        else:
            gaps.append(outcome)
    return findings, gaps


def codes_checked(modules: Sequence[RuleModule[Any]], gaps: Sequence[NotChecked]) -> tuple[str, ...]:
    """Return the codes of the rules that looked, with or without a finding."""
    unable = {gap.code for gap in gaps if not gap.partly}
    return tuple(module.RULE.code for module in modules if module.RULE.code not in unable)
