"""Why the bank has, or has not, a policy for a task: the property that differs, by name and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from jumar.findings import Json
from jumar.tune.bank.entry import Entry
from jumar.tune.machine import Machine
from jumar.tune.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One property in which the task that was asked for differs from the nearest one in the bank."""

    name: str
    """`shape of input`, `dilation`, `torch`, …"""
    asked: str
    in_bank: str

    def __str__(self) -> str:
        return f"{self.name} is {self.asked} here and {self.in_bank} in the bank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The answer for one task on one machine."""

    task: Work
    status: Literal["hit", "unsatisfied", "miss"]
    """`unsatisfied`: it was tuned and nothing was faster."""
    entries: Sequence[Entry] = ()
    """The entries of the task itself; for a miss, those of its nearest neighbour."""
    differences: Sequence[Difference] = ()

    @property
    def reason(self) -> str:
        """One sentence."""
        if self.status == "hit":
            policies = ", ".join(f"{entry.kind} {entry.policy}" for entry in self.entries if entry.policy is not None)
            return f"The bank has it: {policies}."
        if self.status == "unsatisfied":
            tried = ", ".join(str(tried.policy) for entry in self.entries for tried in entry.tried)
            gain = max(entry.min_gain for entry in self.entries)
            return f"It was tuned and nothing was faster by {gain * 100:g} % or more: {tried}."
        if not self.entries:
            return f"The bank has no entry of {self.task.operator}: it was never tuned."
        return f"The nearest entry differs: {'; '.join(map(str, self.differences))}."


def look_up(task: Work, machine: Machine, entries: Sequence[Entry]) -> Lookup:
    """Explain what the bank's `entries` say about `task` on `machine`.

    A miss names the entry of the same operator that differs in the fewest properties.
    """
    exact = [entry for entry in entries if entry.task.key == task.key and entry.machine.key == machine.key]
    if exact:
        found = any(entry.policy is not None for entry in exact)
        return Lookup(task=task, status="hit" if found else "unsatisfied", entries=exact)
    related = [entry for entry in entries if entry.task.operator == task.operator]
    if not related:
        return Lookup(task=task, status="miss")
    nearest = min(related, key=lambda entry: len(_differences(task, machine, entry)))
    same = [
        entry for entry in related
        if entry.task.key == nearest.task.key and entry.machine.key == nearest.machine.key
    ]  # fmt: skip
    return Lookup(task=task, status="miss", entries=same, differences=_differences(task, machine, nearest))


def _differences(task: Work, machine: Machine, entry: Entry) -> list[Difference]:
    asked = _properties(task, machine)
    known = _properties(entry.task, entry.machine)
    return [
        Difference(name=name, asked=asked.get(name, "absent"), in_bank=known.get(name, "absent"))
        for name in dict.fromkeys([*asked, *known])
        if asked.get(name) != known.get(name)
    ]


def _properties(task: Work, machine: Machine) -> dict[str, str]:
    """Return every property of the key by name, in the order in which people look at them."""
    properties = {}
    for name, spec in task.tensors.items():
        for what, value in spec.identity().items():
            properties[f"{what} of {name}"] = _text(value)
    properties |= {name: _text(value) for name, value in task.arguments.items()}
    known: Mapping[str, Json] = asdict(machine)
    return properties | {name: _text(value) for name, value in known.items()}


def _text(value: Json) -> str:
    return "none" if value is None else str(value) or "none"
