"""Subgraph: a whole graph under a plan."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from jumar.base.files import new_folder
from jumar.tune.engines.base import Engine, GraphFunction, Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.process import OwnFolder, variable
from jumar.tune.model.task import Function, Policy, Task, digest
from jumar.tune.plan.engines import ENGINES
from jumar.tune.plan.plan import KIND, PROVIDER, Plan
from jumar.tune.providers.base import Provider

BUILDS = "JUMAR_TUNE_BUILDS"
"""Environment variable: a folder in which the processes of one run leave what they compiled for each other."""


class PlanProvider(Provider):
    """Builds plans. Which plans are worth a measurement, the subgraph search says (`jumar.tune.search.subgraph`)."""

    name = PROVIDER
    kind = KIND
    engines: ClassVar[Sequence[Engine]] = ENGINES
    preload = tuple(dict.fromkeys(name for engine in ENGINES for name in engine.preload))

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer nothing for an operator."""
        return []

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Build the plan, or load what another process of this run built; `function` is not needed."""
        from jumar.tune.plan.build import build

        plan, folder = Plan.of(policy), os.environ.get(BUILDS, "")
        if not folder or not Path(folder).is_dir():
            return build(plan, site, self.engines)
        return _shared(plan, site, Path(folder), self.engines)


@contextmanager
def sharing_builds() -> Iterator[Path]:
    """Let the processes that are started meanwhile share what they compile, in a folder that is removed at the end."""
    with OwnFolder("jumar-builds-") as folder, variable(BUILDS, str(folder)):
        yield folder


def _shared(plan: Plan, site: Site, folder: Path, engines: Sequence[Engine]) -> GraphFunction:
    """Load the plan from its place in `folder`; build it there, under another name at first, where it is not yet."""
    from jumar.tune.plan.build import build, load
    from jumar.tune.plan.built import fingerprint, trim

    how: list[Any] = [site.num_threads, site.draws_as_eager]
    place = folder / digest([site.graph.key, plan.to_json(), *how, fingerprint(site.constants)])[:40]
    if not place.is_dir():
        try:
            with new_folder(place) as draft:
                build(plan, replace(site, folder=draft), engines)
        except OSError:
            if not place.is_dir():  # no room, and not merely another process that was first
                raise
        trim(folder, keep=place, greatest_bytes=_GREATEST_BYTES)
    os.utime(place)
    return load(plan, replace(site, folder=place), engines)


_GREATEST_BYTES = 4 << 30
"""All that one run shares; what was not used for longest is compiled again when it is needed."""
