"""The tuning rules, one file each: what a run reports, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.rules import Rule
from jumar.tune.rules import (
    batch_split,
    candidate_disagrees,
    candidate_lost,
    device_shared,
    dynamic_shape,
    faster_plan,
    faster_policy,
    few_cores,
    graph_break,
    graph_not_faster,
    graph_not_run,
    low_disk,
    low_memory,
    machine_busy,
    nan_output,
    not_deterministic,
    operator_not_run,
    other_device,
    precision_chosen,
    precision_metric_failed,
    precision_not_native,
    precision_over_budget,
    precision_overflow,
    profiled,
    provider_missing,
    random_operator,
    region_loses,
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
    faster_plan,
    graph_not_faster,
    region_loses,
    batch_split,
    graph_not_run,
    precision_chosen,
    precision_over_budget,
    precision_overflow,
    precision_metric_failed,
    precision_not_native,
)

_OF_GRAPHS = (random_operator, not_deterministic, nan_output, graph_break, dynamic_shape)
"""Their findings are made where a model is captured, before there is a result."""

RULES: tuple[Rule, ...] = (
    *(module.RULE for module in _MODULES),
    *(module.RULE for module in _OF_GRAPHS),
)

__all__ = ["RULES", "findings_of"]


_OF_MEASURING = (machine_busy, low_disk, low_memory, few_cores, profiled, device_shared)
"""What they find disturbs measurements, or is too little for them; an estimate is none."""


def findings_of(result: TuneResult) -> list[Finding]:
    """Return every finding of a run, the most severe first, then by code."""
    fitting = [module for module in _MODULES if not (result.machine.is_estimate and module in _OF_MEASURING)]
    found = [finding for module in fitting for finding in module.findings(result)]
    return sorted(found, key=lambda finding: (-finding.severity, finding.code))
