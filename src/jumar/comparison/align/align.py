"""Pairs the calls of two runs by module, phase, operator, shape and dataflow.

Within a module and phase the calls of both runs are two sequences. Equal sequences are paired at
once. Otherwise they are matched as common subsequences (`sequences`), first with what each call reads
from and hands to and its scalar arguments, then with less. Calls left over on both sides that read the
same values are pairs that moved; connected ones that hand their results to the same call are regions
(`regions`), compared where the results leave them. What stays alone is a finding, never "agree".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jumar.comparison.align.matching import Dataflow, Matching, Pair, match_by_values, match_moved, match_parameters
from jumar.comparison.align.sequences import common
from jumar.comparison.align.turns import (
    BACKWARD,
    Named,
    homes,
    parameter_names,
    repeated_modules,
    same_batch,
    set_apart_recomputed,
    set_turns,
)
from jumar.comparison.model.calls import Call, Names, calls_of, loss_scale
from jumar.comparison.model.correspondence import StructuralDiff
from jumar.operators.names import FRAMEWORKS, canonical_name
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    from jumar.comparison.align.regions import Exit, Region
    from jumar.comparison.model.frameworks.foreign import Foreign

__all__ = ["AlignedStep", "Pair", "align", "align_step"]


@dataclass(slots=True)
class AlignedStep:
    """The calls of one step of both runs, and which belong together."""

    kind: Literal["op", "module", "none"]
    """What is compared: operators, modules where one side has no operators, nothing."""
    reference: list[Call]
    target: list[Call]
    pairs: list[Pair]
    structure: list[StructuralDiff] = field(default_factory=list)
    """Calls that the runs do not have in common, by place."""
    explained: dict[int, str] = field(default_factory=dict)
    """Why calls without a partner are no difference between the programs, by their `id`."""
    parameters_only: bool = False
    """The runs cut the step's batch into others: only what the optimizer reads and writes can be compared."""
    foreign_operators: bool = False
    """Both runs have operators and share no name of one, as those of two frameworks: modules are compared."""
    apart: tuple[str, ...] = ()
    """What two frameworks hold in another form each, so that it is not compared; one sentence each."""


def align_step(
    reference: Sequence[CallRow],
    target: Sequence[CallRow],
    names: tuple[Names | None, Names | None] = (None, None),
    frameworks: Foreign | None = None,
) -> AlignedStep:
    """Align the rows of one step and rank. `names` says how each side's names are read, `frameworks` what the layers of
    two frameworks are.

    Where the runs cut a step's batch into micro-batches of other sizes, only its parameters can be compared.
    """
    kind = _common_kind(reference, target)
    foreign = kind == "op" and _are_foreign(reference, target, names)
    kind = "module" if foreign else kind
    if kind == "none":
        return AlignedStep(kind, [], [], [])
    of_reference = calls_of([row for row in reference if row.kind in {kind, "parameter"}], names[0])
    of_target = calls_of([row for row in target if row.kind in {kind, "parameter"}], names[1])
    apart: tuple[str, ...] = ()
    if frameworks is not None and kind == "module":
        joined = frameworks.prepare(of_reference, of_target)
        (of_reference, of_target), apart = joined.sides, joined.sentences
    repeated = repeated_modules(reference, target, names)
    if repeated:
        set_turns(of_reference, reference, names[0], repeated)
        set_turns(of_target, target, names[1], repeated)
        if "" in repeated and not same_batch(of_reference, of_target):
            of_reference, of_target = (
                [call for call in calls if call.row.phase == "optimizer"] for calls in (of_reference, of_target)
            )
            pairs = align(of_reference, of_target)
            return AlignedStep(kind, of_reference, of_target, pairs, parameters_only=True, foreign_operators=foreign)
    matching, regions = _matched(of_reference, of_target)
    is_equal = not (regions or repeated or matching.moved or matching.left(0) or matching.left(1))
    if is_equal:
        pairs = _merge(matching, regions)
        return AlignedStep(kind, of_reference, of_target, pairs, foreign_operators=foreign, apart=apart)
    # These are imported late: most steps make the same calls.
    from jumar.comparison.align.explained import explanations
    from jumar.comparison.align.structure import differences

    explained = explanations(matching, regions, (loss_scale(reference), loss_scale(target)))
    if frameworks is not None:
        from jumar.comparison.model.frameworks.partners.unpaired import reasons_of, sentences_of

        losses = all(any(row.kind == "loss" for row in rows) for rows in (reference, target))
        explained |= reasons_of(frameworks, matching.calls, matching.partners, losses=losses)
        apart = (*apart, *sentences_of((*of_reference, *of_target), explained))
    structure = differences(matching, regions, repeated, explained)
    pairs = _merge(matching, regions)
    return AlignedStep(
        kind, of_reference, of_target, pairs, structure, explained, foreign_operators=foreign, apart=apart
    )


def _common_kind(reference: Sequence[CallRow], target: Sequence[CallRow]) -> Literal["op", "module", "none"]:
    common_kinds = {row.kind for row in reference} & {row.kind for row in target}
    return "op" if "op" in common_kinds else "module" if "module" in common_kinds else "none"


def _are_foreign(
    reference: Sequence[CallRow], target: Sequence[CallRow], names: tuple[Names | None, Names | None]
) -> bool:
    """Tell whether the operators of two runs are of two frameworks, or share no name while both have modules."""
    one, other = ({row.name for row in rows if row.kind == "op"} for rows in (reference, target))
    if _frameworks(one) != _frameworks(other):
        return True
    if one & other or not all(any(row.kind == "module" for row in rows) for rows in (reference, target)):
        return False
    known = [
        {canonical_name(side.operator(name) if side else name) for name in those}
        for side, those in zip(names, (one, other), strict=True)
    ]
    return known[0].isdisjoint(known[1])


def _frameworks(names: Iterable[str]) -> set[str]:
    """Return the prefixes of other frameworks than PyTorch whose operators these are."""
    return {f"{name.partition('::')[0]}::" for name in names} & FRAMEWORKS.keys()


def align(reference: Sequence[Call], target: Sequence[Call]) -> list[Pair]:
    """Return pairs in the reference's order of execution, calls that only the target has in their place."""
    return _merge(*_matched(reference, target))


def _matched(reference: Sequence[Call], target: Sequence[Call]) -> tuple[Matching, list[Region]]:
    if list(map(_identity, reference)) == list(map(_identity, target)):
        return Matching.of_equal(reference, target), []
    for calls in (reference, target):
        set_apart_recomputed(calls)
    matching = Matching(reference, target, Dataflow(reference), Dataflow(target))
    named = parameter_names(reference, target)
    matching.know(named)
    of_target = _groups(target, matching.flows[1])
    for key, of_reference in _groups(reference, matching.flows[0]).items():
        others = of_target.get(key)
        if others:
            backwards = reference[of_reference[0]].row.phase == "backward"
            tokens = (
                _tokens(reference, matching.flows[0], of_reference, named[0]),
                _tokens(target, matching.flows[1], others, named[1]),
            )
            level = int(
                reference[of_reference[0]].turn == BACKWARD
            )  # a turn's place in the dataflow is another with more turns
            for i, j in _match(range(len(of_reference)), range(len(others)), tokens, level, backwards=backwards):
                matching.pair(of_reference[i], others[j])
    match_moved(matching)
    match_by_values(matching)
    match_parameters(matching)
    from jumar.comparison.align.regions import find_regions

    return matching, find_regions(matching)


def _identity(call: Call) -> Hashable:
    return call.row.kind, call.row.phase, call.place, call.turn, call.token, call.row.arguments, call.item


def _groups(calls: Sequence[Call], flow: Dataflow) -> dict[Hashable, list[int]]:
    """Return the indices of the calls by what must agree.

    Optimizers have no modules and run in the order of their lists: there the parameter that a call works
    for stands in for the module, and the numbers it is called with are part of what must agree.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    owners = homes(calls, flow)
    for index, call in enumerate(calls):
        row = call.row
        if row.phase == "optimizer" and row.kind == "op":
            groups[row.kind, owners.get(index, call.place), call.token, call.scalars()].append(index)
        elif row.kind == "parameter":
            groups[row.kind, call.place, call.operator].append(index)
        else:
            groups[row.kind, row.phase, call.place, call.turn].append(index)
    return groups


Tokens = list[list[Hashable]]
"""The tokens of the calls of a group, by level. Two calls that share a token of the first level are paired at once. A
token of a later level pairs calls in the gaps between such pairs."""


def _tokens(calls: Sequence[Call], flow: Dataflow, group: Sequence[int], named: Named) -> Tokens:
    tokens: Tokens = [[], [], [], []]
    for index in group:
        call = calls[index]
        arguments = call.row.arguments if call.item is None else ""
        values = [value for _, value in flow.reads[index]]
        reads = tuple([calls[value].operator if value >= 0 else named.get(-value, "") for value in values])
        readers = tuple(sorted([calls[reader].operator for reader in flow.readers[index]]))
        parameters = tuple([named[-value] for value in values if -value in named])
        token = (call.token, parameters) if parameters else call.token
        for level, what in enumerate(((token, arguments, reads, readers), (token, arguments), token, call.operator)):
            tokens[level].append(what)
    return tokens


def _match(
    first: range, second: range, tokens: tuple[Tokens, Tokens], level: int = 0, *, backwards: bool
) -> Iterator[tuple[int, int]]:
    """Yield pairs of places in two groups; what a level leaves between two pairs is matched at the next level.

    Beside an insertion, calls read and hand on other values. At this level, therefore, only tokens that occur once on
    each side count. Of several equal calls the last one counts as the extra one, in a backward pass the first one, so
    that the iterations of a loop correspond from its start.
    """
    if level == len(tokens[0]) or not first or not second:
        return
    a, b = tokens[0][level][first.start : first.stop], tokens[1][level][second.start : second.stop]
    if level > 0 and a == b:
        yield from zip(first, second, strict=True)
        return
    last_i, last_j = first.start, second.start
    for in_a, in_b in _common(a, b, certain=level == 0, backwards=backwards):
        i, j = in_a + first.start, in_b + second.start
        yield from _match(range(last_i, i), range(last_j, j), tokens, level + 1, backwards=backwards)
        yield i, j
        last_i, last_j = i + 1, j + 1
    yield from _match(range(last_i, first.stop), range(last_j, second.stop), tokens, level + 1, backwards=backwards)


def _common(a: list[Hashable], b: list[Hashable], *, certain: bool, backwards: bool) -> list[tuple[int, int]]:
    numbers: dict[Hashable, int] = {}
    first, second = ([numbers.setdefault(token, len(numbers)) for token in tokens] for tokens in (a, b))
    if not backwards:
        return list(common(first, second, certain=certain))
    last_a, last_b = len(a) - 1, len(b) - 1
    return [(last_a - i, last_b - j) for i, j in common(first[::-1], second[::-1], certain=certain)][::-1]


def _merge(matching: Matching, regions: Sequence[Region]) -> list[Pair]:
    """Return all calls once: the reference's order, target-only calls before the next pair that follows them.

    A result of a region comes after the calls of both sides that make it.
    """
    words: tuple[dict[int, str], dict[int, str]] = ({}, {})
    exits: dict[int, list[tuple[Region, Exit]]] = defaultdict(list)
    for region in regions:
        for side in (0, 1):
            words[side].update(dict.fromkeys(region.members[side], region.words))
        for way_out in region.exits:
            exits[way_out.calls[0]].append((region, way_out))
    partner = {i: j for i, j in enumerate(matching.partners[0]) if j >= 0}
    partner.update({i: max(way_out.calls[1] for _, way_out in of) for i, of in exits.items()})
    before = _waiting(matching.calls[1], partner)
    certain = _certain(matching, regions)
    pairs: list[Pair] = []

    def alone(side: int, index: int) -> None:
        call = matching.calls[side][index]
        reference, target = (call, None) if side == 0 else (None, call)
        pairs.append(Pair(reference, target, words[side].get(index, ""), certain=(side, call.row.phase) in certain))

    for i, call in enumerate(matching.calls[0]):
        j = partner.get(i)
        for k in before.pop(j, ()) if j is not None else ():
            alone(1, k)
        if j is None or i in exits:
            alone(0, i)
        else:
            pairs.append(Pair(call, matching.calls[1][j]))
        if i in exits and j is not None and j not in before:
            alone(1, j)
            before[j] = []
        pairs.extend(region.border(way_out) for region, way_out in exits.get(i, ()))
    for k in before.pop(-1, ()):
        alone(1, k)
    return pairs


def _certain(matching: Matching, regions: Sequence[Region]) -> set[tuple[int, str]]:
    """Return the sides and phases whose calls without a partner are surely extra: the other side has none there."""
    inside = [{k for region in regions for k in region.members[side]} for side in (0, 1)]
    phases = [
        {
            call.row.phase
            for k, call in ((k, matching.calls[side][k]) for k in matching.left(side))
            if k not in inside[side] and not call.layout_only
        }
        for side in (0, 1)
    ]
    return {(side, phase) for side in (0, 1) for phase in phases[side] - phases[1 - side]}


def _waiting(target: Sequence[Call], partner: dict[int, int]) -> dict[int, list[int]]:
    """Return the target's calls without a partner by the paired call that follows them, -1 at the end."""
    paired = set(partner.values())
    before: dict[int, list[int]] = {}
    alone: list[int] = []
    for j in range(len(target)):
        if j not in paired:
            alone.append(j)
        elif alone:
            before[j] = alone
            alone = []
    before[-1] = alone
    return before
