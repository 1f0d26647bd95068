"""Whether what a policy of the bank needs is here: its provider, and engines of the version it was measured with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jumar.tune.bank.entry import Entry
from jumar.tune.bank.neighbours import Difference
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.model.machine import Machine
from jumar.tune.model.policy import Policy
from jumar.tune.plan.plan import PROVIDER as PLAN
from jumar.tune.plan.plan import Plan, absence_of

if TYPE_CHECKING:
    import torch

    from jumar.tune.bank.store import Bank
    from jumar.tune.engines.base import Engine
    from jumar.tune.graph import Graph
    from jumar.tune.providers.base import Provider

ABSENT = "absent"


def missing(policies: Iterable[Policy], machine: Machine, providers: Sequence[Provider] = ()) -> list[Difference]:
    """Return what is not here, or in another version than the policies were measured with.

    `providers` are here besides Jumar's own.
    """
    found = [one for policy in policies for one in _missing(policy, machine, providers)]
    return list(dict.fromkeys(found))


def usable(entries: Iterable[Entry], machine: Machine, providers: Sequence[Provider] = ()) -> list[Entry]:
    """Return the entries without those whose policy needs what is not here, or was measured together with such a one.

    Threads that were measured on top of another engine say nothing of the operator without it.
    """
    return [one for one in entries if not missing(_measured_together(one), machine, providers)]


def _measured_together(entry: Entry) -> Iterator[Policy]:
    """Yield an entry's policy and those of other kinds that it was measured on top of; none for an unsatisfied one.

    Of its own kind the base has what it replaced, which is no part of it.
    """
    if entry.policy is not None:
        yield entry.policy
        yield from (policy for policy in entry.base if policy.kind != entry.kind)


def lowered_within(
    budget: float, bank: Bank, graph: Graph, weights: Mapping[int, torch.Tensor], machine: Machine,
    on_unusable: Callable[[str], None] | None = None,
) -> KnownPrecision | None:  # fmt: skip
    """Return what a bank has in fewer bits for these very weights, the fastest within a budget that is usable here.

    `on_unusable` is told why a plan is passed over.
    """
    from jumar.tune.plan.built import fingerprint, unusable

    def is_usable(plan: Plan) -> bool:
        why = unusable(plan, machine)
        if why and on_unusable is not None:
            on_unusable(why)
        return not why

    asked = AskedPrecision(task=graph, machine=machine, weights=fingerprint(weights), budget=budget)
    return bank.precision(asked, is_usable)


def within(plan: Plan) -> Iterator[Policy]:
    """Yield the policies that a plan has for single operators."""
    from jumar.tune.providers.operators import NAME, stacks_of

    for region in plan.regions:
        if region.engine == NAME:
            for stack in stacks_of(region.settings).values():
                yield from stack


def _missing(policy: Policy, machine: Machine, providers: Sequence[Provider]) -> Iterator[Difference]:
    from jumar.tune.plan.engines import ENGINES
    from jumar.tune.providers import PROVIDERS
    from jumar.tune.providers.engine import EngineProvider

    if policy.provider == PLAN:
        plan = Plan.of(policy)
        for region in plan.regions:
            engine = next((one for one in ENGINES if one.name == region.engine), None)
            yield from _engine(region.engine, region.version, engine, machine)
        yield from missing(within(plan), machine, providers)
        return
    provider = next((one for one in (*providers, *PROVIDERS) if one.name == policy.provider), None)
    if provider is None or provider.unavailable(machine):
        yield Difference(name=f"provider {policy.provider}", asked=ABSENT, in_bank="needed")
    elif isinstance(provider, EngineProvider):
        version = str(policy.settings.get("version", ""))
        yield from _engine(provider.engine.name, version, provider.engine, machine)


def _engine(name: str, version: str, engine: Engine | None, machine: Machine) -> Iterator[Difference]:
    absence = absence_of(name, version, engine, machine)
    if absence is not None:
        yield Difference(name=f"version of {name}", asked=absence.here or ABSENT, in_bank=version or "none")
