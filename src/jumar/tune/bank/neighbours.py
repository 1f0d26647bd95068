"""Nearest-shape transfer: what the bank knows of the same computation at other sizes, or on other versions.

A policy holds for what it was measured on and for nothing else. But where a search has nothing yet, the policies
of the nearest neighbour are the best place to start: they are measured first, and the gate decides as always.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jumar.tune.bank.differences import Difference, differences
from jumar.tune.bank.entry import Entry, by_task, stack_of
from jumar.tune.machine import Machine
from jumar.tune.policy import Stack
from jumar.tune.structure import distance
from jumar.tune.work import Work

_WEIGHTS = {"num_threads": 0.5, "torch": 0.25, "compiler": 0.25, "capability": 1.0, "model": 1.0}
"""What another property of the machine adds to a distance; another device is no neighbour."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A task or graph of the bank, of the same structure, with the policies that were measured faster for it."""

    entries: Sequence[Entry]
    distance: float
    differences: Sequence[Difference]
    """What is another than in what was asked for."""

    @property
    def work(self) -> Work:
        """The neighbour itself."""
        return self.entries[0].task

    @property
    def stack(self) -> Stack:
        """Its policies."""
        return stack_of(self.entries)

    def __str__(self) -> str:
        """`aten::mm(float32 4×8, float32 8×4), where shape of self is [4, 8] in place of [16, 8]`."""
        shown = [f"{one.name} is {one.in_bank} in place of {one.asked}" for one in self.differences[:_SHOWN]]
        more = len(self.differences) - len(shown)
        return f"{self.work}, where {', '.join(shown)}" + (f" and {more} more differ" if more else "")


def neighbours(work: Work, machine: Machine, entries: Iterable[Entry], limit: int) -> list[Neighbour]:
    """Return those among `entries`, all of the structure of `work`, that have policies, the nearest first."""
    found = [
        Neighbour(
            entries=group,
            distance=distance(work, group[0].task) + _between(machine, group[0].machine),
            differences=differences(work, machine, group[0].task, group[0].machine),
        )
        for group in by_task(entries)
        if group[0].machine.device == machine.device and stack_of(group)
        if (group[0].task.key, group[0].machine.key) != (work.key, machine.key)
    ]
    return sorted(found, key=lambda one: (one.distance, one.work.key))[:limit]


def _between(one: Machine, other: Machine) -> float:
    return sum(weight for name, weight in _WEIGHTS.items() if getattr(one, name) != getattr(other, name))
