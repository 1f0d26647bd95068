"""What the bank hands out: plain values, apart from the database; and how two banks are merged.

Where two banks know the same task, the better stack is kept, whole: the policies of one task were measured on top of
each other, so that stacks are never mixed. A stack is worth what it gains over the operator as PyTorch runs it: the
product over its policies, and those that they replaced, of the *lower* bounds of their gains (a policy's gain is
measured over the stack that was there; after an update of a lower kind the product is an estimate). Where one stack was
measured over the other, that decides. A stack that is not better than the built-in layer's is left out, as the vendor's
tool does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from jumar.base.findings import Json
from jumar.tune.graph.graph import Work
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, PolicyKind, Stack, in_order, stack_to_json
from jumar.tune.plan.plan import KIND, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One candidate and what became of it."""

    policy: Policy
    outcome: Outcome
    replaced: bool = False
    """It was the bank's policy before this entry's: `outcome` is the measurement that had let it in."""

    def to_json(self) -> dict[str, Json]:
        """Return the candidate with its outcome as JSON values."""
        data: dict[str, Json] = {"policy": self.policy.to_json(), "outcome": self.outcome.to_json()}
        return data | ({"replaced": True} if self.replaced else {})

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tried:
        """Rebuild from `to_json`."""
        return cls(
            policy=policy_from_json(data["policy"]), outcome=Outcome.from_json(data["outcome"]),
            replaced=bool(data.get("replaced", False)),
        )  # fmt: skip


def warning_of(tried: Iterable[Tried], policy: Policy | None) -> str:
    """Return on which numbers that are not finite a policy's outputs differ from PyTorch's, as a sentence; else empty.

    It is known of policies that were measured, and empty for others.
    """
    kinds = [kind for one in tried if one.policy == policy for kind in one.outcome.differs_on]
    if not kinds:
        return ""
    named = " or ".join(dict.fromkeys(kinds))
    return f"On inputs with {named} its outputs are finite where PyTorch's are not, or the reverse."


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of one kind of policy for one task on one machine."""

    task: Work
    machine: Machine
    kind: PolicyKind
    policy: Policy | None
    """None: unsatisfied. All of `tried` was measured and nothing cleared the gate."""
    base: Stack
    """What the candidates were measured against."""
    gain: Gain | None
    min_gain: float
    tried: Sequence[Tried]
    created: str
    updated: str
    """UTC, ISO 8601."""

    def replaced(self) -> list[Tried]:
        """Return the policies that were there before this one, each measured over the next."""
        return [one for one in self.tried if one.replaced]

    def gains(self) -> Iterator[Gain]:
        """Yield the policy's gain and those of what it replaced: together they are its gain over none of its kind."""
        if self.policy is not None and self.gain is not None:
            yield self.gain
            yield from (one.outcome.gain for one in self.replaced() if one.outcome.gain is not None)

    def after(self, known: Entry) -> Entry:
        """Return this entry in the place of `known`, with what was replaced so far among `tried`."""
        if known.policy is None or known.gain is None or known.policy not in (self.policy, *self.base):
            return self
        replaced = known.replaced()
        if known.policy != self.policy:
            outcome = Outcome(status="measured", phase="measure", gain=known.gain)
            replaced = [Tried(policy=known.policy, outcome=outcome, replaced=True), *replaced]
        return replace(self, tried=(*(one for one in self.tried if not one.replaced), *replaced))

    def to_json(self) -> dict[str, Json]:
        """Return the entry as JSON values."""
        return {
            "task_key": self.task.key,
            "task": self.task.to_json(),
            "machine_key": self.machine.key,
            "machine": {name: getattr(self.machine, name) for name in Machine.__dataclass_fields__},
            "kind": self.kind,
            "policy": None if self.policy is None else self.policy.to_json(),
            "base": stack_to_json(self.base),
            "gain": None if self.gain is None else self.gain.to_json(),
            "min_gain": self.min_gain,
            "tried": [tried.to_json() for tried in self.tried],
            "created": self.created,
            "updated": self.updated,
        }


def time_from(text: object) -> str:
    """Return a time as the bank writes it, UTC and ISO 8601. Raises TypeError or ValueError for anything else."""
    if not isinstance(text, str):
        raise TypeError(f"a time is text; got {text!r}")
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    return text


def policy_from_json(data: Mapping[str, Any]) -> Policy:
    """Rebuild a policy. Raises KeyError, TypeError or ValueError on foreign input, also for a plan that is none."""
    policy = Policy.from_json(data)
    if policy.kind == KIND:
        Plan.of(policy)
    return policy


def stack_of(entries: Sequence[Entry]) -> Stack:
    """Return the policies of the entries of one task and machine as a stack."""
    return in_order(entry.policy for entry in entries if entry.policy is not None)


def by_task(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return the entries grouped by task and machine, in the order in which the groups are met."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.task.key, entry.machine.key), []).append(entry)
    return list(groups.values())


class Measured(Protocol):
    """What was measured on a machine: policies, and choices under an error budget."""

    @property
    def machine(self) -> Machine:
        """Where."""


@dataclass(slots=True)
class Merged:
    """What became of the tasks of the other bank."""

    num_added: int = 0
    num_better: int = 0
    """The other bank's stack replaced one that gains less."""
    num_kept: int = 0
    """What was here gains as much or more."""
    num_built_in: int = 0
    """The built-in layer's gains as much or more."""

    def __add__(self, other: Merged) -> Merged:
        """Return the counts of two merges together."""
        left, right = asdict(self), asdict(other)
        return Merged(**{name: left[name] + right[name] for name in left})


def merged(known: list[Entry], new: Sequence[Entry], beneath: Sequence[Entry], counts: Merged) -> list[Entry]:
    """Return the entries of one task to keep (`known` itself when they stay), and count what was decided."""
    if beneath and not beats(new, beneath):
        counts.num_built_in += 1
        return known
    if not known:
        counts.num_added += 1
        return list(new)
    if beats(new, known):
        counts.num_better += 1
        created = {entry.kind: entry.created for entry in known}
        return [replace(entry, created=created.get(entry.kind, entry.created)) for entry in new]
    counts.num_kept += 1
    return known


def beats(one: Sequence[Entry], other: Sequence[Entry]) -> bool:
    """Tell whether the policies `one` of a task gain more than the policies `other`."""
    over, under = _is_measured_over(one, other), _is_measured_over(other, one)
    return over if over != under else worth(one) > worth(other)


def worth(entries: Sequence[Entry]) -> float:
    """Return by what factor the policies of a task are faster than none, at least."""
    return math.prod(gain.ratio_low for entry in entries for gain in entry.gains())


def _is_measured_over(one: Sequence[Entry], other: Sequence[Entry]) -> bool:
    """Tell whether a policy of `one` was measured faster than all policies of `other` together."""
    stack = stack_of(other)
    return stack != stack_of(one) and any(entry.policy is not None and entry.base == stack for entry in one)


def foreign(entries: Sequence[Measured], known: Sequence[Machine]) -> list[Machine]:
    """Return the machines of `entries` of which none of `known` has the device, processor and instructions."""
    kinds = {machine.hardware for machine in known}
    machines = {entry.machine.key: entry.machine for entry in entries}
    return [machine for machine in machines.values() if machine.hardware not in kinds]
