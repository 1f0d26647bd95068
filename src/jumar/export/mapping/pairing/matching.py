"""Pairs the units of two programs: `Matching`.

First come equal values and equal names, then structure: scopes (the program, a member of a family) are paired from the
root down; in a scope, units are told apart by their shapes, then by the words and numbers of their names, then by the
modules that hold them. What is still alike is paired in its order, and called a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from jumar.export.mapping.form.unit import Unit
from jumar.export.mapping.form.words import conflict, numbers_of, roles_of
from jumar.export.mapping.pairing.alike import (
    agree,
    classes,
    contents,
    distinct,
    fits,
    is_resized,
    number,
    numbered_parents,
    related,
    template,
    told_apart,
)
from jumar.export.mapping.pairing.families import Family, Item, Path, divided, family_likeness

SAME_NAME = "the same name and shape"
BY_SHAPE, LAST_LEFT = "the only one of its shape there", "the last of its shape that is left"
_END = 2
_NAMED = 0.5
"""Where so many of the pairs have one name, names are kept."""
_ALIKE = 0.8
"""Families that share so many shapes, and no other pair comes near, belong together."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A unit of the target and the unit of the source that it comes from."""

    source: Unit
    target: Unit
    certain: bool
    score: float
    why: str
    basis: str = "name"
    """`shape` where nothing but shapes and structure speaks for the pair."""


class Matching:
    """The pairs that have been found, by the target's place."""

    def __init__(self, sources: Sequence[Unit], targets: Sequence[Unit]) -> None:
        self.sources, self.targets = sources, targets
        self.pairs: dict[int, Pair] = {}
        self._taken: set[int] = set()

    def run(self) -> dict[int, Pair]:
        """Find the pairs, those that `take` was given kept."""
        self._same_names()
        self._scope([(unit.path, unit) for unit in self.sources], [(unit.path, unit) for unit in self.targets], True)
        rest = self._free([(u.path, u) for u in self.sources], [(u.path, u) for u in self.targets])
        self._units(*rest, certain=False, single_is_certain=True)
        self._near(*self._free(*rest), certain=False)
        self._doubt_shapes()
        return self.pairs

    def take(self, pair: Pair) -> None:
        """Keep a pair. Its units are free no more."""
        self.pairs[pair.target.place] = pair
        self._taken.add(pair.source.place)

    def left(self) -> tuple[list[Unit], list[Unit]]:
        """Return the units without a partner, of the source and of the target."""
        return (
            [unit for unit in self.sources if unit.place not in self._taken],
            [unit for unit in self.targets if unit.place not in self.pairs],
        )

    def _free(self, first: Sequence[Item], second: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        return (
            [item for item in first if item[1].place not in self._taken],
            [item for item in second if item[1].place not in self.pairs],
        )

    def _pair(self, one: Unit, other: Unit, certain: bool, score: float, why: str, basis: str = "name") -> None:
        if one.place in self._taken or other.place in self.pairs:
            return
        self.take(Pair(one, other, certain, score, why, basis))

    # names

    def _same_names(self) -> None:
        """Pair units of one path, but for those of a numbered parent in which other pairs of names contradict."""
        by_path: dict[Path, list[Unit]] = defaultdict(list)
        for unit in self.sources:
            by_path[unit.path].append(unit)
        both = [(by_path[unit.path][0], unit) for unit in self.targets if len(by_path.get(unit.path, ())) == 1]
        refused = {parent for one, other in both if not fits(one, other) for parent in numbered_parents(other.path)}
        refused |= self._gaps()
        for one, other in both:
            if fits(one, other) and not refused.intersection(numbered_parents(other.path)):
                self._pair(one, other, True, 1.0, SAME_NAME)

    def _gaps(self) -> set[Path]:
        """Return the numbered parents whose numbers are others on each side: one number may mean another layer."""
        numbers: tuple[dict[Path, set[str]], dict[Path, set[str]]] = defaultdict(set), defaultdict(set)
        for side, units in zip(numbers, (self.sources, self.targets), strict=True):
            for unit in units:
                for parent in numbered_parents(unit.path):
                    side[parent].add(number(unit.path[len(parent)]))
        first, second = numbers
        return {parent for parent in first.keys() & second.keys() if not agree(first[parent], second[parent])}

    # structure

    def _scope(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        """Pair the units of two scopes that belong together."""
        loose, families = divided(first)
        other_loose, other_families = divided(second)
        pairs, others, more = self._families(families, other_families)
        for one, other, sure in pairs:
            for member, partner in zip(one.in_order(), other.in_order(), strict=True):
                self._scope(member, partner, certain and sure)
        loose += [item for family in others for item in family.items]
        other_loose += [item for family in more for item in family.items]
        self._units(*self._free(loose, other_loose), certain=certain)
        self._near(*self._free(loose, other_loose), certain=certain)

    def _families(
        self, first: Sequence[Family], second: Sequence[Family]
    ) -> tuple[list[tuple[Family, Family, bool]], list[Family], list[Family]]:
        """Return families that belong together, whether that is certain, and those without a partner."""
        scores = {(i, j): family_likeness(one, two) for i, one in enumerate(first) for j, two in enumerate(second)}
        found, used, partners = [], set(), set()
        for (i, j), score in sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])):
            if score < 0.5 or i in used or j in partners:
                continue
            rivals = [other for (a, b), other in scores.items() if ((a == i) != (b == j)) and other > score - 0.2]
            named = told_apart(first, second, i, j)
            used.add(i)
            partners.add(j)
            found.append((first[i], second[j], named or (score >= _ALIKE and not rivals)))
        return (
            found,
            [family for number, family in enumerate(first) if number not in used],
            [family for number, family in enumerate(second) if number not in partners],
        )

    def _units(
        self, first: Sequence[Item], second: Sequence[Item], certain: bool, single_is_certain: bool = False
    ) -> None:
        """Pair the units of equal shapes in two lists."""
        for one, other in classes(first, second, lambda item: item[1].signature):
            if len(one) == len(other) == 1 and not conflict(roles_of(one[0][0]), roles_of(other[0][0])):
                basis = "name" if related(one[0][0], other[0][0]) and certain else "shape"
                self._pair(one[0][1], other[0][1], certain or single_is_certain, 0.9, BY_SHAPE, basis)
        for one, other in classes(*self._free(first, second), lambda item: item[1].signature):
            self._by_words(one, other, certain)
            self._by_numbers(*self._free(one, other), certain=certain)
        self._by_parents(first, second, certain)
        for one, other in classes(*self._free(first, second), lambda item: item[1].signature):
            self._in_order(one, other, certain)

    def _by_words(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        words, others = distinct(first), distinct(second)
        for one, own in zip(first, words, strict=True):
            fitting = [place for place, found in enumerate(others) if own & found and not conflict(own, found)]
            if len(fitting) != 1:
                continue
            back = [place for place, found in enumerate(words) if others[fitting[0]] & found]
            if len(back) == 1:
                partner = second[fitting[0]]
                shared = ", ".join(sorted(own & others[fitting[0]]))
                is_whole = len(first) == len(second) or roles_of(one[0]) == roles_of(partner[0])
                why = f"of the same shape and the same word ({shared})"
                self._pair(one[1], partner[1], certain and is_whole, 0.85, why, _basis(one, partner))

    def _by_numbers(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        """Pair units whose names differ in numbers alone, by the order of the numbers."""
        if len(first) != len(second) or len(first) < 2:
            return
        if any(len({template(path) for path, _ in items}) > 1 for items in (first, second)):
            return
        ordered = [sorted(items, key=lambda item: numbers_of(item[0])) for items in (first, second)]
        depths = {len(numbers_of(path)) for items in ordered for path, _ in items}
        is_distinct = all(len({numbers_of(path) for path, _ in items}) == len(items) for items in ordered)
        if not is_distinct or len(depths) > 1 or conflict(roles_of(first[0][0]), roles_of(second[0][0])):
            return
        for one, other in zip(*ordered, strict=True):
            basis = "name" if numbers_of(one[0]) == numbers_of(other[0]) else "shape"
            self._pair(one[1], other[1], certain, 0.85, "of the same shape, by the numbers in the names", basis)

    def _by_parents(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        """Pair units that equal modules hold, which their other units show to belong together."""
        while True:
            before = len(self.pairs)
            labels = self._labels()
            free = self._free(first, second)
            named: list[list[tuple[Hashable, Item]]] = [[], []]
            for side, items in enumerate(free):
                for path, unit in items:
                    label = labels[side].get(unit.path[:-1])
                    if label is not None:
                        named[side].append(((unit.signature, label), (path, unit)))
            for one, other in classes(named[0], named[1], lambda entry: entry[0]):
                if len(one) == len(other) == 1:
                    source, target = one[0][1][1], other[0][1][1]
                    if not conflict(roles_of(source.path[-1:]), roles_of(target.path[-1:])):
                        why = "the only one of its shape in a module whose other parts are matched"
                        self._pair(source, target, certain, 0.8, why, "shape")
            if len(self.pairs) == before:
                return

    def _labels(self) -> tuple[dict[Path, Path], dict[Path, Path]]:
        """Return for parents on both sides one label a pair that belongs together."""
        votes: dict[Path, set[Path]] = defaultdict(set)
        back: dict[Path, set[Path]] = defaultdict(set)
        for pair in self.pairs.values():
            one, other = pair.source.path, pair.target.path
            if not pair.certain or len(one) != len(other):
                continue
            for end in range(1, len(one)):
                votes[one[:end]].add(other[:end])
                back[other[:end]].add(one[:end])
        held = contents(self.sources), contents(self.targets)
        found: tuple[dict[Path, Path], dict[Path, Path]] = {}, {}
        for one, partners in votes.items():
            other = next(iter(partners))
            if len(partners) == len(back[other]) == 1 and held[0][one] == held[1][other]:
                found[0][one] = found[1][other] = other
        return found

    def _in_order(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        """Pair what nothing tells apart in its order; one that is left on each side is no guess."""
        left, right = (list(items) for items in (first, second))
        last = len(left) == len(right) == 1
        for one in left:
            fitting = [item for item in right if not conflict(roles_of(one[0]), roles_of(item[0]))]
            if not fitting:
                continue
            other = fitting[0]
            right.remove(other)
            if last:
                self._pair(one[1], other[1], certain, 0.75, LAST_LEFT, "shape")
            else:
                why = f"by order: {len(first)} of the source and {len(second)} of the target have this shape"
                self._pair(one[1], other[1], False, 0.4, why, "order")

    def _near(self, first: Sequence[Item], second: Sequence[Item], certain: bool) -> None:
        """Pair units whose greatest parameters fit, though one has a parameter more (a bias)."""
        for one, other in classes(first, second, lambda item: item[1].core):
            single = len(one) == len(other) == 1
            for (path, unit), (target_path, target) in zip(one, other, strict=False):
                if not (unit.slots.keys() & target.slots.keys()) or conflict(roles_of(path), roles_of(target_path)):
                    continue
                related = bool(roles_of(path) & roles_of(target_path)) or path[-1:] == target_path[-1:]
                why = "the only one of this shape, with other parameters beside it" if single else "by order"
                self._pair(unit, target, certain and single and related, 0.6 if single else 0.3, why, "shape")

    def _doubt_shapes(self) -> None:
        """Call pairs by shape alone guesses where both sides have units without a partner.

        So are all of them where most names are the same on both sides: another name is then another module. A head or
        an embedding of another size on each side is no reason for doubt.
        """
        same = sum(pair.why == SAME_NAME for pair in self.pairs.values())
        is_named = same > _NAMED * len(self.pairs)
        left = self.left()
        if not is_named and (not all(left) or self._are_resized(*left)):
            return
        reason = "most other names are the same" if is_named else "both sides have others left over"
        for place, pair in self.pairs.items():
            if pair.certain and pair.basis == "shape":
                self.pairs[place] = replace(pair, certain=False, score=0.6, why=f"{pair.why}; {reason}")

    def _are_resized(self, first: Sequence[Unit], second: Sequence[Unit]) -> bool:
        """Return whether what is left are layers at the ends of the programs that differ in one size."""
        ends = [
            all(unit.place < _END or unit.place >= len(units) - _END for unit in left)
            for left, units in ((first, self.sources), (second, self.targets))
        ]
        return len(first) == len(second) and all(ends) and all(map(is_resized, first, second))


def _basis(one: Item, other: Item) -> str:
    """Return `name` where the words and numbers of two paths are the same."""
    same = roles_of(one[0]) == roles_of(other[0]) and numbers_of(one[0]) == numbers_of(other[0])
    return "name" if same else "shape"
