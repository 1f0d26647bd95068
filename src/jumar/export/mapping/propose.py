"""`propose`: a map from one side's names to the other's, with what is matched, guessed and left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from jumar.export.mapping.entries import GUESSED, MATCHED, Entry, entries_of
from jumar.export.mapping.file import Map, text_of_map
from jumar.export.mapping.form.flattened import with_columns
from jumar.export.mapping.form.unit import Unit
from jumar.export.mapping.form.units import is_counter, units_of, with_split
from jumar.export.mapping.pairing.matching import Matching, Pair
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.transforms import TRANSPOSE
from jumar.export.mapping.values import Values, digests_of, layouts_by_values

_NUM_NEAREST = 3
TURNED = "the shape fits only when it is transposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A map before a person has seen it."""

    entries: tuple[Entry, ...]
    missing: Mapping[str, tuple[str, ...]]
    """Targets without a source, each with the nearest sources that are free."""
    unused: Mapping[str, tuple[str, ...]]
    """Sources without a target, each with the nearest targets that are free."""
    shapes: Mapping[str, tuple[int, ...]]
    """Of the missing targets."""
    by_values: bool
    """Whether the target holds values of the source, so that values took part in the judgement."""

    @property
    def text(self) -> str:
        """The text of the map file."""
        missing = {name: (str(list(self.shapes[name])), near) for name, near in self.missing.items()}
        return text_of_map(self.entries, missing, self.unused)

    @property
    def map(self) -> Map:
        """The map as it is applied."""
        return Map(entries=self.entries, dropped=tuple(self.unused), lines={})

    def num(self, status: str) -> int:
        """Return the number of the target's tensors of a status; counters of batches do not count."""
        return sum(entry.status == status and not is_counter(entry.target) for entry in self.entries)

    @property
    def num_targets(self) -> int:
        """The number of the target's tensors, counters of batches left out."""
        return self.num(MATCHED) + self.num(GUESSED) + len(self.missing)


def propose(source: Side, target: Side) -> Proposal:
    """Return the map that names, shapes, structure and values speak for."""
    units, others = units_of(source), units_of(target)
    if source.framework == "tensorflow" != target.framework:
        others = with_columns(others)
    if target.framework == "tensorflow" != source.framework:
        units = with_columns(units)
    units, others = with_split(units, others), with_split(others, units)
    first, second = digests_of(source, units), digests_of(target, others)
    units = layouts_by_values(source, units, first, second)
    others = layouts_by_values(target, others, second, first)
    values = Values(first, second)
    pairs = _pairs(units, others, values)
    entries = entries_of(target, others, pairs, values)
    entries = _in_order([*entries, *_counters(source, target, pairs, entries)], target)
    used = {name for entry in entries for name in entry.sources} | _tied(source, entries)
    done = {entry.target for entry in entries}
    missing = [name for name in target.tensors if name not in done and not is_counter(name)]
    unused = [name for name in source.tensors if name not in used and not is_counter(name)]
    return Proposal(
        entries=tuple(entries),
        missing={name: _nearest(name, target, unused, source) for name in missing},
        unused={name: _nearest(name, source, missing, target) for name in unused},
        shapes={name: target.tensors[name].shape for name in missing},
        by_values=values.decide,
    )


def _pairs(units: Sequence[Unit], others: Sequence[Unit], values: Values) -> dict[int, Pair]:
    matching = Matching(units, others)
    for pair in values.pairs(units, others):
        matching.take(pair)
    pairs = matching.run()
    left, right = matching.left()
    turned = [found for unit in left if (found := _turned(unit)) is not None]
    if turned and right:
        again = Matching(turned, right)
        pairs |= {place: replace(pair, certain=False) for place, pair in again.run().items()}
    return pairs


def _turned(unit: Unit) -> Unit | None:
    """Return a unit with its matrix transposed, for what found no partner otherwise."""
    slot = unit.slots.get("weight")
    if slot is None or len(slot.shape) != 2:
        return None
    slot = replace(slot, shape=slot.shape[::-1], steps=(*slot.steps, TRANSPOSE), doubt=TURNED)
    slots = {**unit.slots, "weight": slot}
    return replace(unit, slots=slots, signature=frozenset((one.leaf, one.shape) for one in slots.values()))


def _counters(source: Side, target: Side, pairs: Mapping[int, Pair], entries: Sequence[Entry]) -> list[Entry]:
    """Return entries for the counters of batches beside parameters that have an entry."""
    found = []
    by_target = {entry.target: entry for entry in entries}
    for pair in pairs.values():
        for leaf, slot in pair.target.slots.items():
            name = f"{slot.name.rpartition('.')[0]}.num_batches_tracked"
            if leaf != "running_mean" or leaf not in pair.source.slots or name not in target.tensors:
                continue
            origin = f"{pair.source.slots[leaf].name.rpartition('.')[0]}.num_batches_tracked"
            if origin in source.tensors and slot.name in by_target:
                found.append(replace(by_target[slot.name], target=name, sources=(origin,), steps=()))
    return found


def _in_order(entries: Sequence[Entry], target: Side) -> list[Entry]:
    place = {name: number for number, name in enumerate(target.tensors)}
    return sorted(entries, key=lambda entry: place[entry.target])


def _tied(source: Side, entries: Sequence[Entry]) -> set[str]:
    """Return other names of sources that are used."""
    used = {name for entry in entries for name in entry.sources}
    return {
        name
        for name, first in source.ties.items()
        if first in used or any(source.ties.get(other) == first for other in used)
    }


def _nearest(name: str, own: Side, free: Sequence[str], other: Side) -> tuple[str, ...]:
    """Return the free names of the other side that come nearest: by the sizes of the shape, then by the letters."""
    shape = own.tensors[name].shape

    def score(one: str) -> tuple[bool, float]:
        return sorted(other.tensors[one].shape) == sorted(shape), SequenceMatcher(None, name, one).ratio()

    ranked = sorted(((score(one), one) for one in free[:500]), key=lambda entry: entry[0], reverse=True)
    return tuple(one for (same, ratio), one in ranked[:_NUM_NEAREST] if same or ratio > 0.6)
