"""Tensors of both sides that hold the same values: `Values`. Where many do, values decide which belong together.

A tensor is read once and kept as a digest of its float32 form. Constant tensors (zeros of a new bias) tell nothing.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from jumar.export.mapping.form.unit import Slot, Unit
from jumar.export.mapping.pairing.matching import Pair
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.transforms import TRANSPOSE, Steps, apply_steps, tidy

SAME = "the same values"
DIFFER = "the values differ, though other tensors of the two files are equal"
_FEWEST = 4
_ENOUGH = 0.5
"""So much of the target must have a twin in the source, for values that differ to speak against a pair."""
Digests = dict[tuple[int, str], str]


def digests_of(side: Side, units: Sequence[Unit]) -> Digests:
    """Return the digests of all slots that tell something, by the unit's place and the parameter's name."""
    by_name: dict[str, list[tuple[int, Slot]]] = defaultdict(list)
    for unit in units:
        for slot in unit.slots.values():
            by_name[slot.name].append((unit.place, slot))
    found: Digests = {}
    for name, slots in by_name.items():
        tensor = side.read(name)
        for place, slot in slots:
            if digest := digest_of(apply_steps(slot.steps, [tensor])):
                found[place, slot.leaf] = digest
    return found


def digest_of(tensor: torch.Tensor) -> str:
    """Return a digest of the values and the shape; empty for few values and for constants."""
    if tensor.numel() < _FEWEST or tensor.is_complex():
        return ""
    plain = tensor.to(torch.float32).contiguous()
    if bool((plain == plain.reshape(-1)[0]).all()):
        return ""
    return hashlib.blake2b(plain.numpy().tobytes() + str(tuple(plain.shape)).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Values:
    """What equal values tell of two sides."""

    first: Digests
    second: Digests

    @property
    def decide(self) -> bool:
        """Whether the target holds the values of the source: a tensor with others is another one."""
        known = set(self.first.values())
        twins = sum(digest in known for digest in self.second.values())
        return bool(twins) and twins >= _ENOUGH * len(self.second)

    def pairs(self, sources: Sequence[Unit], targets: Sequence[Unit]) -> list[Pair]:
        """Return the pairs of units whose telling parameters all have the same values."""
        if not self.decide:
            return []
        units = {unit.place: unit for unit in sources}
        places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for (place, leaf), digest in self.first.items():
            places[leaf, digest].add(place)
        found: list[Pair] = []
        taken: set[int] = set()
        for target in targets:
            told = [(leaf, self.second[target.place, leaf]) for leaf in target.slots if self._tells(target, leaf)]
            if not told:
                continue
            fitting = set.intersection(*(places[entry] for entry in told)) - taken
            fitting = {place for place in fitting if target.slots.keys() <= units[place].slots.keys()}
            if fitting:
                best = min(fitting, key=lambda place: (units[place].path != target.path, place))
                taken.add(best)
                found.append(Pair(units[best], target, True, 1.0, SAME, "values"))
        return found

    def _tells(self, unit: Unit, leaf: str) -> bool:
        return (unit.place, leaf) in self.second

    def same(self, pair: Pair, leaf: str) -> bool | None:
        """Return whether a parameter of both units has the same values; None where that tells nothing."""
        if not self.decide:
            return None
        one, other = self.first.get((pair.source.place, leaf)), self.second.get((pair.target.place, leaf))
        return None if one is None and other is None else one == other


def layouts_by_values(side: Side, units: Sequence[Unit], digests: Digests, others: Digests) -> list[Unit]:
    """Return the units with each doubtful matrix in the layout in which the other side holds its values.

    `digests` are the side's, and get the new ones; `others` are those of the other side.
    """
    known = set(others.values())
    found = []
    for unit in units:
        slot = unit.slots.get("weight")
        if slot is not None and slot.doubt:
            if digests.get((unit.place, slot.leaf), "") in known:
                slot = replace(slot, doubt="")
            for steps in _others(slot) if slot.doubt else ():
                if (digest := digest_of(apply_steps(steps, [side.read(slot.name)]))) in known:
                    slot = replace(slot, steps=steps, doubt="")
                    digests[unit.place, slot.leaf] = digest
                    break
            unit = replace(unit, slots={**unit.slots, "weight": slot})  # noqa: PLW2901 - the unit with its new slot
        found.append(unit)
    return found


def _others(slot: Slot) -> list[Steps]:
    """Return the other layouts that the shape allows."""
    found: list[Steps] = []
    if any(step.kind == "columns" for step in slot.steps):
        found.append(tuple(step for step in slot.steps if step.kind != "columns"))
    if len(slot.shape) == 2 and slot.shape[0] == slot.shape[1]:
        found.append(tidy((*slot.steps, TRANSPOSE)))
    return found
