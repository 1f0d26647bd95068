"""The tuning rules, one file each: what a run reports, as findings.

`by_provider` groups the candidates of a run that came to a bad end, for the rules that judge them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jumar.base.findings import Location
from jumar.base.plugins import is_offered

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.tune.measure.worker.messages import Outcome
    from jumar.tune.search.outcome import TuneResult

_OF_RUNS = ("candidate_lost", "candidate_disagrees", "other_device", "provider_missing")
_OF_TASKS = ("faster_policy", "operator_not_run")
_OF_GRAPHS = ("faster_plan", "graph_not_faster", "region_loses", "batch_split", "graph_not_run")
_OF_PRECISIONS = (
    "precision_chosen", "precision_over_budget", "precision_overflow", "precision_metric_failed",
    "precision_not_native",
)  # fmt: skip
_OF_CONDITIONS = ("low_disk", "low_memory", "few_cores", "profiled", "device_shared")


def findings_of(result: TuneResult) -> list[Finding]:
    """Return every finding of a run, the most severe first, then by code.

    An estimate is no measurement: a busy machine does not disturb it. The rules of captured graphs are not asked:
    their findings are made where a model is captured, before there is a result.
    """
    of_tasks = _OF_TASKS if result.tasks else ()
    of_graphs = _OF_GRAPHS if result.graphs else ()
    of_precisions = _OF_PRECISIONS if result.precisions else ()
    found = [*_found(__name__, (*_OF_RUNS, *of_tasks, *of_graphs, *of_precisions), result)]
    if is_offered("rule"):
        from jumar.base.rules import installed_modules

        found += [one for module in installed_modules("tune") for one in module.find(result)]
    if not result.machine.is_estimate:
        found += _found(__name__, ("machine_busy",), result)
        if result.conditions is not None:
            found += _found("jumar.tune.measure.conditions.rules", _OF_CONDITIONS, result.conditions)
    return sorted(found, key=lambda finding: (-finding.severity, finding.code))


def _found(package: str, names: tuple[str, ...], subject: Any) -> Iterator[Finding]:
    """Yield what the rules of these names find; a rule is loaded when it is asked."""
    for name in names:
        yield from import_module(f"{package}.{name}").find(subject)


@dataclass(slots=True, kw_only=True)
class Group:
    """Candidates of one provider (for graphs: engine) with one status, those apart that it refused."""

    provider: str
    status: str
    first_name: str
    detail: str
    where: Location
    is_refusal: bool = False
    num_lost: int = 0
    num_tried: int = 0
    """Candidates of the provider in this run, with any status."""


def by_provider(result: TuneResult, statuses: Sequence[str]) -> list[Group]:
    """Return the groups in the order in which they first came up."""
    groups: dict[tuple[str, str, bool], Group] = {}
    tried: dict[str, int] = {}
    for name, provider, outcome, where in _candidates(result):
        tried[provider] = tried.get(provider, 0) + 1
        if outcome.status not in statuses:
            continue
        group = groups.setdefault(
            (provider, outcome.status, outcome.is_refusal),
            Group(
                provider=provider, status=outcome.status, first_name=name, detail=outcome.detail,
                where=where, is_refusal=outcome.is_refusal,
            ),
        )  # fmt: skip
        group.num_lost += 1
    for group in groups.values():
        group.num_tried = tried[group.provider]
    return list(groups.values())


def num_candidates(result: TuneResult) -> int:
    """Return how many candidates the run tried."""
    return sum(1 for _ in _candidates(result))


def _candidates(result: TuneResult) -> Iterator[tuple[str, str, Outcome, Location]]:
    for task in result.tasks:
        where = task.use.where
        for one in (one for slot in task.slots for one in slot.tried):
            yield task.use.name, one.policy.provider, one.outcome, where
    for graph in result.graphs:
        for attempt in graph.attempts:
            if not attempt.is_left_out:
                engines = " | ".join(dict.fromkeys(region.engine for region in attempt.plan.regions))
                yield graph.name, engines, attempt.outcome, Location(module_path=graph.name)
