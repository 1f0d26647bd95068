"""Candidates of a run that came to a bad end, grouped by provider and status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.findings import Location
from jumar.tune.outcome import TuneResult


@dataclass(slots=True, kw_only=True)
class Group:
    """Candidates of one provider with one status."""

    provider: str
    status: str
    first_name: str
    detail: str
    where: Location
    num_lost: int = 0
    num_tried: int = 0
    """Candidates of the provider in this run, with any status."""


def by_provider(result: TuneResult, statuses: Sequence[str]) -> list[Group]:
    """Return the groups in the order in which they first came up."""
    groups: dict[tuple[str, str], Group] = {}
    tried: dict[str, int] = {}
    for task in result.tasks:
        for one in (one for slot in task.slots for one in slot.tried):
            provider, status = one.policy.provider, one.outcome.status
            tried[provider] = tried.get(provider, 0) + 1
            if status not in statuses:
                continue
            where = Location(module_path=task.use.module_paths[0], operator=task.use.task.operator)
            group = groups.setdefault(
                (provider, status),
                Group(
                    provider=provider, status=status, first_name=task.use.name, detail=one.outcome.detail, where=where
                ),
            )
            group.num_lost += 1
    for group in groups.values():
        group.num_tried = tried[group.provider]
    return list(groups.values())
