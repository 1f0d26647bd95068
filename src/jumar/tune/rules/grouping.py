"""Candidates of a run that came to a bad end, grouped by provider and status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.base.findings import Location
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.search.outcome import TuneResult


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
