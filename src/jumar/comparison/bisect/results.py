"""The result of a bisection: frozen values that turn into JSON. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from jumar.base.findings import Finding
from jumar.comparison.bisect.units import How, Unit
from jumar.comparison.model.results import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run with some units switched."""

    units: frozenset[Unit]
    losses: Mapping[int, float]
    """By step."""
    closed: float
    """Share of the loss gap that is closed: 1 - gap after / gap before; with a check 1 when it passes, else 0."""
    switched: int = 0
    """Calls that were calculated otherwise."""
    failed: tuple[str, ...] = ()
    """Operators that could not be calculated otherwise, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The answer to "which operators open the gap"."""

    headline: str
    how: How
    units: tuple[Unit, ...]
    """The smallest set that was found; empty when none closes the gap."""
    closed: float
    """By this set."""
    closed_by_all: float
    """By all units together: no set can be expected to close more."""
    gap_before: float
    """Root mean square of the differences of the losses over the steps; with a check 1."""
    gap_after: float
    reference_losses: Mapping[int, float] = field(default_factory=dict)
    losses_before: Mapping[int, float] = field(default_factory=dict)
    losses_after: Mapping[int, float] = field(default_factory=dict)
    num_units: int = 0
    num_runs: int = 0
    is_minimal: bool = True
    """No part of the set was found that does as well; False when the runs allowed ended the search."""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        data: dict[str, Any] = {
            item.name: plain(getattr(self, item.name))
            for item in fields(self)
            if item.name not in {"units", "findings"}
        }
        data["units"] = [{"operator": unit.operator, "module_path": unit.module_path} for unit in self.units]
        data["findings"] = [plain(finding.to_json()) for finding in self.findings]
        return data
