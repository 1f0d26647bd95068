"""Whether what a policy of the bank needs is here: its provider, and engines of the version it was measured with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.tune.bank.differences import Difference
from jumar.tune.bank.entry import Entry
from jumar.tune.machine import Machine
from jumar.tune.plan.plan import PROVIDER as PLAN
from jumar.tune.plan.plan import Plan
from jumar.tune.plan.presence import absence_of
from jumar.tune.policy import Policy

if TYPE_CHECKING:
    from jumar.tune.engines.base import Engine
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


def within(plan: Plan) -> Iterator[Policy]:
    """Yield the policies that a plan has for single operators."""
    from jumar.tune.engines.operators import NAME, stacks_of

    for region in plan.regions:
        if region.engine == NAME:
            for stack in stacks_of(region.settings).values():
                yield from stack


def _missing(policy: Policy, machine: Machine, providers: Sequence[Provider]) -> Iterator[Difference]:
    from jumar.tune.engines import ENGINES
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
