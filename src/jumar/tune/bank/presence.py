"""Whether what a policy of the bank needs is here: its provider, and engines of the version it was measured with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.tune.bank.differences import Difference
from jumar.tune.machine import Machine
from jumar.tune.plan.plan import PROVIDER as PLAN
from jumar.tune.plan.plan import Plan
from jumar.tune.plan.presence import absence_of
from jumar.tune.policy import Policy

ABSENT = "absent"


def missing(policies: Sequence[Policy], machine: Machine) -> list[Difference]:
    """Return what is not here, or in another version than the policies were measured with."""
    found = [one for policy in policies for one in _missing(policy, machine)]
    return list(dict.fromkeys(found))


def _missing(policy: Policy, machine: Machine) -> Iterator[Difference]:
    from jumar.tune.providers import PROVIDERS

    if policy.provider == PLAN:
        for region in Plan.of(policy).regions:
            yield from _engine(region.engine, region.version, machine)
        return
    provider = next((one for one in PROVIDERS if one.name == policy.provider), None)
    if provider is None or provider.unavailable(machine):
        yield Difference(name=f"provider {policy.provider}", asked=ABSENT, in_bank="needed")
    elif "version" in policy.settings:  # an operator through an engine, which its provider is called after
        yield from _engine(policy.provider, str(policy.settings["version"]), machine)


def _engine(name: str, version: str, machine: Machine) -> Iterator[Difference]:
    from jumar.tune.engines import ENGINES

    absence = absence_of(name, version, next((one for one in ENGINES if one.name == name), None), machine)
    if absence is not None:
        yield Difference(name=f"version of {name}", asked=absence.here or ABSENT, in_bank=version or "none")
