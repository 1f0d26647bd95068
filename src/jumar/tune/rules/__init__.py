"""The tuning rules, one file each: what a run reports, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.rules import Rule
from jumar.tune.rules import (
    candidate_disagrees,
    candidate_lost,
    device_shared,
    faster_policy,
    few_cores,
    low_disk,
    low_memory,
    machine_busy,
    operator_not_run,
    other_device,
    profiled,
    provider_missing,
)

if TYPE_CHECKING:
    from jumar.findings import Finding
    from jumar.tune.outcome import TuneResult

_MODULES = (
    faster_policy,
    candidate_lost,
    candidate_disagrees,
    operator_not_run,
    other_device,
    provider_missing,
    machine_busy,
    low_disk,
    low_memory,
    few_cores,
    profiled,
    device_shared,
)

RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)

__all__ = ["RULES", "findings_of"]


def findings_of(result: TuneResult) -> list[Finding]:
    """Return every finding of a run, the most severe first, then by code."""
    found = [finding for module in _MODULES for finding in module.findings(result)]
    return sorted(found, key=lambda finding: (-finding.severity, finding.code))
