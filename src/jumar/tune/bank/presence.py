"""Whether a policy of the bank can be used here, and why the bank has or has not a policy for a task or graph.

A policy needs its provider, and engines of the version it was measured with. `Lookup` names each property that
differs, with both values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jumar.tune.bank.entry import Entry
from jumar.tune.bank.neighbours import Difference, differences
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.graph.graph import Work, structure_of
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy
from jumar.tune.plan.plan import PROVIDER as PLAN
from jumar.tune.plan.plan import Plan, absence_of, worded

if TYPE_CHECKING:
    import torch

    from jumar.tune.bank.store import Bank
    from jumar.tune.engines.base import Engine
    from jumar.tune.graph import Graph
    from jumar.tune.providers.base import Provider

__all__ = ["Difference", "Lookup", "look_up"]

ABSENT = "absent"


def missing(policies: Iterable[Policy], machine: Machine, providers: Sequence[Provider] = ()) -> list[Difference]:
    """Return what is not here, or in another version than the policies were measured with.

    `providers` are here besides Jumar's own.
    """
    found = [one for policy in policies for one in _missing(policy, machine, providers)]
    return list(dict.fromkeys(found))


def usable(entries: Iterable[Entry], machine: Machine, providers: Sequence[Provider] = ()) -> list[Entry]:
    """Return the entries without those whose policy needs what is not here, or was measured together with such a one.

    Threads that were measured on top of another engine do not hold for the operator without that engine.
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


_SHOWN = 6
"""Differences that a sentence names; two networks of other widths differ in hundreds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The answer for one task or graph on one machine."""

    task: Work
    status: Literal["hit", "unsatisfied", "miss"]
    """`unsatisfied`: it was tuned and nothing was faster."""
    entries: Sequence[Entry] = ()
    """The entries of the task itself; for a miss, those of its nearest neighbour."""
    differences: Sequence[Difference] = ()
    """For a miss; of the task itself where the bank has it and something that its policies need is not here."""

    @property
    def reason(self) -> str:
        """One sentence."""
        if self.status == "hit":
            policies = ", ".join(
                f"{entry.kind} {worded(entry.policy)}" for entry in self.entries if entry.policy is not None
            )
            return f"The bank has it: {policies}."
        if self.status == "unsatisfied":
            tried = ", ".join(worded(tried.policy) for entry in self.entries for tried in entry.tried)
            gain = max(entry.min_gain for entry in self.entries)
            return f"It was tuned and nothing was faster by {gain * 100:g} % or more: {tried}."
        if not self.entries:
            return f"The bank has no entry of {self.task.operator}: it was never tuned."
        shown = "; ".join(map(str, self.differences[:_SHOWN]))
        more = len(self.differences) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        if self.entries[0].task.key == self.task.key:
            return f"The bank has it, for something else than is here: {shown}{rest}."
        return f"The nearest entry differs: {shown}{rest}."


def look_up(task: Work, machine: Machine, entries: Sequence[Entry]) -> Lookup:
    """Explain what the bank's `entries` say about `task` on `machine`.

    A policy whose provider or engine is not here, or in another version, is a miss that names it. Any other miss
    names the entry of the same operator that differs in the fewest properties; for a graph one of the same structure
    (operators, wiring, dtypes) is nearer than any other.
    """
    exact = [entry for entry in entries if entry.task.key == task.key and entry.machine.key == machine.key]
    if exact:
        policies = [entry.policy for entry in exact if entry.policy is not None]
        absent = missing(policies, machine)
        if absent:
            return Lookup(task=task, status="miss", entries=exact, differences=absent)
        return Lookup(task=task, status="hit" if policies else "unsatisfied", entries=exact)
    related = [entry for entry in entries if entry.task.operator == task.operator]
    if not related:
        return Lookup(task=task, status="miss")
    nearest = _nearest(task, machine, related)
    same = [
        entry for entry in related
        if entry.task.key == nearest.task.key and entry.machine.key == nearest.machine.key
    ]  # fmt: skip
    found = differences(task, machine, nearest.task, nearest.machine)
    return Lookup(task=task, status="miss", entries=same, differences=found)


def _nearest(task: Work, machine: Machine, related: Sequence[Entry]) -> Entry:
    structure = structure_of(task)

    def apart(entry: Entry) -> tuple[bool, int]:
        num = len(differences(task, machine, entry.task, entry.machine))
        return structure_of(entry.task) != structure, num

    return min(related, key=apart)
