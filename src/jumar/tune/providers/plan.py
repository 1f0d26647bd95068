"""Subgraph: a whole graph under a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jumar.tune.engines import ENGINES
from jumar.tune.engines.base import Engine, Site
from jumar.tune.machine import Machine
from jumar.tune.plan.plan import KIND, PROVIDER, Plan
from jumar.tune.policy import Policy
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task


class PlanProvider(Provider):
    """Builds plans. Which plans are worth a measurement, the subgraph search says (`jumar.tune.subgraph`)."""

    name = PROVIDER
    kind = KIND
    engines: ClassVar[Sequence[Engine]] = ENGINES
    preload = tuple(dict.fromkeys(name for engine in ENGINES for name in engine.preload))

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer nothing for an operator."""
        return []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Build the plan; `function` is not needed."""
        from jumar.tune.plan.build import build

        return build(Plan.of(policy), site, self.engines)
