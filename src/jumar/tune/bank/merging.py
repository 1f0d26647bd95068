"""What is kept when two banks know the same task: the better stack, whole.

The policies of one task were measured on top of each other, so that stacks are never mixed. A stack is
worth what it gains over the operator as PyTorch runs it: the product over its policies, and those that they replaced,
of the *lower* bounds of their gains (a policy's gain is measured over the stack that was there; after an update of a
lower kind the product is an estimate). Where one stack was measured over the other, that decides. Of the vendor's tool
comes the rule that a stack which is not better than the built-in layer's is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from jumar.tune.bank.entry import Entry, stack_of
from jumar.tune.model.machine import Machine


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
