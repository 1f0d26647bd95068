"""What two lists of units have in common: `classes` of equal ones, words and numbers that tell them apart."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from jumar.export.mapping.form.unit import Unit
from jumar.export.mapping.form.words import numbers_of, roles_of
from jumar.export.mapping.pairing.families import Family, Item, Path

T = TypeVar("T")


def fits(one: Unit, other: Unit) -> bool:
    """Return whether all parameters of the target that the source has, too, are of one shape."""
    common = one.slots.keys() & other.slots.keys()
    return bool(common) and all(one.slots[leaf].shape == other.slots[leaf].shape for leaf in common)


def number(name: str) -> str:
    """Return a name that is a number; empty for others."""
    return name if name.isdigit() else ""


def numbered_parents(path: Path) -> list[Path]:
    """Return the beginnings of a path behind which a number stands."""
    return [path[:place] for place, part in enumerate(path) if part.isdigit()]


def agree(one: set[str], other: set[str]) -> bool:
    """Return whether equal numbers mean equal parts: both count from 0, and one side at most has more."""
    return one == other or ("0" in one & other and (one <= other or other <= one))


def template(path: Path) -> str:
    """Return a path without its numbers."""
    return re.sub(r"_?\d+", "", ".".join(path)).strip("._")


def distinct(items: Sequence[Item]) -> list[frozenset[str]]:
    """Return for each unit the words that not all of them have."""
    roles = [roles_of(path) for path, _ in items]
    common = frozenset.intersection(*roles) if len(roles) > 1 else frozenset()
    return [found - common for found in roles]


def told_apart(first: Sequence[Family], second: Sequence[Family], i: int, j: int) -> bool:
    """Return whether words of the paths pair these two families and no others."""
    words, others = ([roles_of(family.path) for family in families] for families in (first, second))
    shared = words[i] & others[j]
    return any(sum(word in found for found in words) == sum(word in found for found in others) == 1 for word in shared)


def contents(units: Iterable[Unit]) -> dict[Path, Counter[Hashable]]:
    """Return by module path the signatures of all units in the module, counted."""
    found: dict[Path, Counter[Hashable]] = defaultdict(Counter)
    for unit in units:
        for end in range(1, len(unit.path)):
            found[unit.path[:end]][unit.signature] += 1
    return found


def is_resized(one: Unit, other: Unit) -> bool:
    """Return whether two units are one layer of two sizes: another number of classes, or of words."""
    if one.slots.keys() != other.slots.keys() or len(one.core) != len(other.core):
        return False
    return sum(first != second for first, second in zip(one.core, other.core, strict=True)) == 1


def related(one: Path, other: Path) -> bool:
    """Return whether two paths end in one name, or in a word that says more than a kind, and have the same numbers."""
    last, other_last = one[-1:], other[-1:]
    shared = last == other_last or roles_of(last) & roles_of(other_last)
    return bool(shared) and numbers_of(one) == numbers_of(other)


def classes(first: Iterable[T], second: Iterable[T], key: Callable[[T], Hashable]) -> list[tuple[list[T], list[T]]]:
    """Return the lists of items with one key that both sides have."""
    found: dict[Hashable, tuple[list[T], list[T]]] = {}
    for side, items in enumerate((first, second)):
        for item in items:
            found.setdefault(key(item), ([], []))[side].append(item)
    return [(one, other) for one, other in found.values() if one and other]
