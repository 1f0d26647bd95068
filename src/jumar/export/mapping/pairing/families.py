"""Numbered parts of a program that repeat: `Family`. `divided` takes them out of a scope."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.export.mapping.form.unit import Unit

Path = tuple[str, ...]
Item = tuple[Path, Unit]
"""A unit by its path within a scope."""
_NUMBERED = re.compile(r"^(.*?)_?(\d+)$")


@dataclass(frozen=True, slots=True)
class Family:
    """Parts of one parent whose names differ in their number alone, such as the layers of an encoder."""

    path: Path
    """With the common beginning of the members' names as the last component."""
    members: dict[int, list[Item]]

    @property
    def items(self) -> list[Item]:
        """All units, by their paths in the scope of the family."""
        return [
            ((*self.path, str(number), *path), unit) for number, items in self.members.items() for path, unit in items
        ]

    def in_order(self) -> list[list[Item]]:
        """Return the members in the order of their numbers."""
        return [self.members[number] for number in sorted(self.members)]


def divided(items: Sequence[Item]) -> tuple[list[Item], list[Family]]:
    """Return the units outside families, and the families nearest to the root of the scope."""
    return _divided(items, ())


def _divided(items: Sequence[Item], before: Path) -> tuple[list[Item], list[Family]]:
    loose = [((*before, *path), unit) for path, unit in items if len(path) <= 1]
    children: dict[str, list[Item]] = {}
    for path, unit in items:
        if path:
            children.setdefault(path[0], []).append((path[1:], unit))
    stems: dict[str, dict[int, str]] = {}
    for name in children:
        if found := _NUMBERED.match(name):
            stems.setdefault(found[1], {})[int(found[2])] = name
    families = []
    taken: set[str] = set()
    for stem, numbers in stems.items():
        if len(numbers) > 1 and sum(len(children[name]) > 1 for name in numbers.values()) > 1:
            members = {number: children[name] for number, name in numbers.items()}
            families.append(Family((*before, stem), members))
            taken |= set(numbers.values())
    loose = [item for item in loose if len(item[0]) == len(before) or item[0][len(before)] not in taken]
    for name, own in children.items():
        deeper = [item for item in own if item[0]]
        if name not in taken and deeper:
            more, found_families = _divided(deeper, (*before, name))
            loose += more
            families += found_families
    return loose, families


def likeness(one: Sequence[Item], other: Sequence[Item]) -> float:
    """Return the part of the units of two scopes that have a counterpart by shape (Jaccard), from 0 to 1."""
    first, second = (Counter(unit.core for _, unit in items) for items in (one, other))
    union = sum((first | second).values())
    return sum((first & second).values()) / union if union else 0.0


def family_likeness(one: Family, other: Family) -> float:
    """Return the mean likeness of the members in order; 0 where their numbers or any two differ wholly."""
    if len(one.members) != len(other.members):
        return 0.0
    each = [likeness(first, second) for first, second in zip(one.in_order(), other.in_order(), strict=True)]
    return sum(each) / len(each) if min(each) > 0 else 0.0
