"""`Entry`: where one tensor of the target comes from. `entries_of` makes them from pairs of units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jumar.export.mapping.form.unit import Slot, Unit
from jumar.export.mapping.pairing.matching import Pair
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.transforms import Step, Steps, inverse, tidy
from jumar.export.mapping.values import DIFFER, Values

MATCHED, GUESSED = "matched", "guessed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a map."""

    target: str
    sources: tuple[str, ...]
    steps: Steps = ()
    status: str = GUESSED
    """`matched` where names, shapes, structure or values leave one choice, else `guessed`. A person may write both."""
    score: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a slot of the target comes from."""

    slot: Slot
    sources: tuple[Slot, ...]
    """Several are added; none means zeros."""
    pair: Pair
    doubt: str


def entries_of(target: Side, units: Sequence[Unit], pairs: Mapping[int, Pair], values: Values | None) -> list[Entry]:
    """Return an entry for each tensor of the target whose every part has a source, in the target's order."""
    needed: dict[str, int] = {}
    origins: dict[str, list[_Origin]] = {}
    for unit in units:
        for slot in unit.slots.values():
            needed[slot.name] = needed.get(slot.name, 0) + 1
        if (pair := pairs.get(unit.place)) is not None:
            for origin in _origins(pair, values):
                origins.setdefault(origin.slot.name, []).append(origin)
    found = {
        name: entry
        for name, parts in origins.items()
        if len(parts) == needed[name] and (entry := _entry(target, name, parts)) is not None
    }
    for name, first in target.ties.items():
        if name not in found and first in found:
            found[name] = replace(found[first], target=name, why=f"it is {first} in the target; {found[first].why}")
    return [found[name] for name in target.tensors if name in found]


def _origins(pair: Pair, values: Values | None) -> Iterator[_Origin]:
    sources = pair.source.slots
    for leaf, slot in pair.target.slots.items():
        doubt = slot.doubt
        found: tuple[Slot, ...] | None = None
        if leaf in sources and sources[leaf].shape == slot.shape:
            found = (sources[leaf],)
        elif leaf == "bias_ih_l0" and "bias_l0" in sources:
            found = (sources["bias_l0"],)
        elif leaf == "bias_hh_l0" and "bias_l0" in sources:
            found = ()
        elif leaf == "bias_l0" and {"bias_ih_l0", "bias_hh_l0"} <= sources.keys():
            found = (sources["bias_ih_l0"], sources["bias_hh_l0"])
        if found is None:
            continue
        same = values.same(pair, leaf) if values is not None and len(found) == 1 else None
        doubts = [doubt, *(source.doubt for source in found), DIFFER if same is False else ""]
        yield _Origin(slot, found, pair, "" if same else "; ".join(dict.fromkeys(filter(None, doubts))))


def _entry(target: Side, name: str, parts: Sequence[_Origin]) -> Entry | None:
    """Return the entry of a stored tensor, which has several parts where it is fused; None where it cannot be made."""
    made = _single(target, name, parts[0]) if len(parts) == 1 else _fused(parts)
    if made is None:
        return None
    sources, steps = made
    doubts = dict.fromkeys(part.doubt for part in parts if part.doubt)
    certain = all(part.pair.certain for part in parts) and not doubts
    why = "; ".join([*dict.fromkeys(part.pair.why for part in parts), *doubts])
    score = min(part.pair.score for part in parts)
    return Entry(
        target=name,
        sources=sources,
        steps=tidy(steps),
        status=MATCHED if certain else GUESSED,
        score=round(score if certain or score < 0.7 else 0.65, 2),
        why=why,
    )


def _single(target: Side, name: str, part: _Origin) -> tuple[tuple[str, ...], Steps] | None:
    back = inverse(part.slot.steps, target.tensors[name].shape)
    if not part.sources:
        return (), (Step("zeros", part.slot.shape), *back)
    if len(part.sources) == 1:
        return (part.sources[0].name,), (*part.sources[0].steps, *back)
    before = {source.steps for source in part.sources}
    if len(before) > 1:
        return None
    return tuple(source.name for source in part.sources), (*before.pop(), Step("add"), *back)


def _fused(parts: Sequence[_Origin]) -> tuple[tuple[str, ...], Steps] | None:
    """Return the sources and steps of a tensor that holds several parameters, one after another."""
    if any(len(part.sources) != 1 for part in parts):
        return None
    names = tuple(part.sources[0].name for part in parts)
    ways = [part.sources[0].steps for part in parts]
    own = [step for step in parts[0].slot.steps if step.kind != "split"]
    is_one = len(set(names)) == 1
    if any(step.kind == "reshape" for step in own):  # the two biases of a GRU of Keras are rows of one tensor
        size = parts[0].slot.shape[0]
        back = inverse([step for step in own if step.kind == "gates"], (size,))
        if is_one:
            return names[:1], ()
        tail = (Step("concat", (0,)), Step("reshape", (len(parts), size)))
        return (names, (*ways[0], *back, *tail)) if len(set(ways)) == 1 else None
    back = tuple(own)  # a transpose, which is its own way back
    splits = [way[-1].numbers[0] for way in ways if way and way[-1].kind == "split"]
    if is_one and splits == list(range(len(parts))):
        return names[:1], (*ways[0][:-1], *back)
    return (names, (*ways[0], Step("concat", (0,)), *back)) if len(set(ways)) == 1 else None
