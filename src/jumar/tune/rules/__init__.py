"""The tuning rules, one file each: what a run reports, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.rules import Rule
from jumar.tune.graph.rules import dynamic_shape, graph_break, nan_output, not_deterministic, random_operator
from jumar.tune.measure.conditions.rules import device_shared, few_cores, low_disk, low_memory, profiled
from jumar.tune.rules import (
    batch_split,
    candidate_disagrees,
    candidate_lost,
    faster_plan,
    faster_policy,
    graph_not_faster,
    graph_not_run,
    machine_busy,
    operator_not_run,
    other_device,
    precision_chosen,
    precision_metric_failed,
    precision_not_native,
    precision_over_budget,
    precision_overflow,
    provider_missing,
    region_loses,
)

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.tune.search.outcome import TuneResult

_OF_RUNS = (candidate_lost, candidate_disagrees, other_device, provider_missing)
_OF_TASKS = (faster_policy, operator_not_run)
_OF_GRAPHS = (faster_plan, graph_not_faster, region_loses, batch_split, graph_not_run)
_OF_PRECISIONS = (
    precision_chosen,
    precision_over_budget,
    precision_overflow,
    precision_metric_failed,
    precision_not_native,
)
_OF_CONDITIONS = (low_disk, low_memory, few_cores, profiled, device_shared)
_OF_CAPTURES = (random_operator, not_deterministic, nan_output, graph_break, dynamic_shape)
"""Their findings are made where a model is captured, before there is a result."""

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        *_OF_RUNS, *_OF_TASKS, *_OF_GRAPHS, *_OF_PRECISIONS, machine_busy, *_OF_CONDITIONS, *_OF_CAPTURES,
    )
)  # fmt: skip

__all__ = ["RULES", "findings_of"]


def findings_of(result: TuneResult) -> list[Finding]:
    """Return every finding of a run, the most severe first, then by code.

    An estimate is no measurement: a busy machine does not disturb it.
    """
    of_tasks = _OF_TASKS if result.tasks else ()
    of_graphs = _OF_GRAPHS if result.graphs else ()
    of_precisions = _OF_PRECISIONS if result.precisions else ()
    found = [one for module in (*_OF_RUNS, *of_tasks, *of_graphs, *of_precisions) for one in module.find(result)]
    if not result.machine.is_estimate:
        found += machine_busy.find(result)
        if result.conditions is not None:
            found += [one for module in _OF_CONDITIONS for one in module.find(result.conditions)]
    return sorted(found, key=lambda finding: (-finding.severity, finding.code))
