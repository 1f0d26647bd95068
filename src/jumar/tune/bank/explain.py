"""Why the bank has, or has not, a policy for a task or graph: the property that differs, by name and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jumar.tune.bank.entry import Entry
from jumar.tune.bank.neighbours import Difference, differences
from jumar.tune.bank.presence import missing
from jumar.tune.graph.work import Work, structure_of
from jumar.tune.model.machine import Machine
from jumar.tune.plan.plan import worded

__all__ = ["Difference", "Lookup", "look_up"]

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
