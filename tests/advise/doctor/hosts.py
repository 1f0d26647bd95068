"""Hosts for the checks: one on which everything is as it should be, to plant single faults into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jumar.advise.checks import NotChecked, finders
from jumar.advise.doctor.machine.examination import RULES
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding
from jumar.testing.contracts.hosts import CANN, LAPTOP
from jumar.testing.contracts.hosts import HEALTHY as NPU_SERVER

__all__ = ["CANN", "LAPTOP", "NPU_SERVER", "look", "outcomes_of", "with_environ"]


def with_environ(host: Host, **variables: str | None) -> Host:
    """Return the host with variables set, or unset where None."""
    merged = {**host.environ, **variables}
    return replace(host, environ={name: value for name, value in merged.items() if value is not None})


def look(code: str, host: Host) -> list[Finding]:
    """Return the findings of one rule; it must have been checked."""
    outcomes = outcomes_of(code, host)
    assert not any(isinstance(outcome, NotChecked) for outcome in outcomes), outcomes
    return outcomes


def outcomes_of(code: str, host: Host) -> list[Any]:
    return list(next(module for module in finders(RULES) if module.RULE.code == code).find(host))
