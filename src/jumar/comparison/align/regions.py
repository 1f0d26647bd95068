"""Finds regions: one calculation that the two runs make with different operators.

Examples are an attention kernel against product, softmax and product, a linear layer against product and sum, and a
fused optimizer against its parts. Calls without a partner that are connected and hand their result to the same call are
one region. The calls inside a region are not compared. Its results are compared as the next call reads them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jumar.base.text import listing
from jumar.comparison.align.matching import Matching, Pair, Value
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import REGION
from jumar.recording.schema import CallRow, TensorRow

SHOWN = 4
"""Operators of a side that are named in words."""

BIASED = frozenset({"convolution", "linear", "addmm", "baddbmm"})
"""Operators that may leave the sum with a bias to another call."""

Read = tuple[TensorRow, CallRow]
"""A tensor and the row that holds it."""


@dataclass(frozen=True, slots=True)
class Exit:
    """One result of a region."""

    calls: tuple[int, int]
    """The calls of the reference and of the target that make it."""
    results: tuple[Read, Read]
    """The result, as it is read next on each side."""


@dataclass(slots=True)
class Region:
    """Calls of both sides that stand for each other."""

    members: tuple[frozenset[int], frozenset[int]]
    """Indices of the calls of the reference and of the target."""
    exits: tuple[Exit, ...]
    inputs: list[tuple[Read, Read]]
    """What both sides read from outside."""
    calls: tuple[tuple[Call, ...], tuple[Call, ...]]
    """The calls of each side in order, as `members`."""
    words: str

    def border(self, way_out: Exit) -> Pair:
        """Return the region as a pair of calls, each with the inputs of its whole side and one result."""
        sizes = [_size(other) for other in self.exits]
        certain = sizes.count(_size(way_out)) == 1
        return Pair(self._call(0, way_out), self._call(1, way_out), self.words, self.calls, certain)

    def _call(self, side: int, way_out: Exit) -> Call:
        inputs = {f"input.{k}": _like(pair[side], pair[0]) for k, pair in enumerate(self.inputs)}
        result = _like(way_out.results[side], way_out.results[0])
        homes = [(inputs[f"input.{k}"], pair[side][1]) for k, pair in enumerate(self.inputs)]
        homes.append((result, way_out.results[side][1]))
        place = sorted(self.members[side]).index(way_out.calls[side])
        return replace(
            self.calls[side][place],
            operator=REGION,
            inputs=inputs,
            outputs={"output.0": result},
            item=None,
            homes={id(tensor): row for tensor, row in homes},
        )


def _like(read: Read, reference: Read) -> TensorRow:
    """Return the tensor, in the reference's shape where both are views of one: what depends on order is left out."""
    tensor, other = read[0], reference[0]
    if tensor.shape == other.shape or math.prod(tensor.shape) != math.prod(other.shape):
        return tensor
    return replace(tensor, shape=other.shape, sketch=None, hash="")


def find_regions(matching: Matching) -> list[Region]:
    """Return the regions among the calls that have no partner. Calls that belong to no region keep having none.

    Parts that hand their results to the same calls as one part of the other side are one region.
    """
    if not matching.knows_values:
        return []
    _unpair_split_biases(matching)
    _unpair_regrouped_sums(matching)
    parts = components(matching, 0), components(matching, 1)
    of_target = {index: number for number, part in enumerate(parts[1]) for index in part}
    groups: list[_Group] = []
    for part in parts[0]:
        exits = _by_readers(matching, part, of_target) or _by_memory(matching, part, of_target)
        if exits:
            target = {k for way_out in exits for k in parts[1][of_target[way_out.calls[1]]]}
            group = _Group(set(part), target, exits)
            for other in [other for other in groups if other.target & target]:
                groups.remove(other)
                group = other.joined(group)
            groups.append(group)
    return [_region(matching, group) for group in groups]


@dataclass(frozen=True, slots=True)
class _Group:
    """Parts of both sides that make one region."""

    reference: set[int]
    target: set[int]
    exits: list[Exit]

    def joined(self, other: _Group) -> _Group:
        return _Group(self.reference | other.reference, self.target | other.target, [*self.exits, *other.exits])


def components(matching: Matching, side: int) -> list[frozenset[int]]:
    """Return the calls left over that hang together by what they read of each other, phase by phase."""
    calls, flow = matching.calls[side], matching.flows[side]
    left = [k for k in matching.left(side) if calls[k].row.kind in {"op", "module"} and not calls[k].layout_only]
    parents = {k: k for k in left}

    def root(k: int) -> int:
        while parents[k] != k:
            parents[k] = k = parents[parents[k]]
        return k

    for k in left:
        for _, value in flow.reads[k]:
            if value in parents and calls[value].row.phase == calls[k].row.phase:
                parents[root(k)] = root(value)
    groups: dict[int, list[int]] = defaultdict(list)
    for k in left:
        groups[root(k)].append(k)
    return [frozenset(group) for group in groups.values()]


def _by_readers(matching: Matching, part: frozenset[int], of_target: dict[int, int]) -> list[Exit]:
    """Return the results of `part` that the partners of their readers read from calls left over, too.

    Of each of the target's parts the greatest.
    """
    found: dict[tuple[int, int], Exit] = {}
    for i, j, name in _results(matching, part):
        value = dict(matching.flows[1].reads[j]).get(name, -1)
        if value in of_target:
            maker = dict(matching.flows[0].reads[i])[name]
            results = _read(matching.calls[0][i], name), _read(matching.calls[1][j], name)
            found.setdefault((maker, value), Exit((maker, value), results))
    greatest: dict[int, tuple[bool, int]] = {}
    for way_out in found.values():
        number = of_target[way_out.calls[1]]
        greatest[number] = max(greatest.get(number, (False, 0)), _size(way_out))
    return [way_out for way_out in found.values() if _size(way_out) == greatest[of_target[way_out.calls[1]]]]


def _size(way_out: Exit) -> tuple[bool, int]:
    """Return how good a result is to compare: of one size on both sides, many elements (not a last state)."""
    first, second = (math.prod(read[0].shape) for read in way_out.results)
    return first == second, first


def _results(matching: Matching, part: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Yield (reader, its partner, name) of the paired calls that read a result of `part`, in order."""
    readers = sorted({reader for k in part for reader in matching.flows[0].readers[k]} - set(part))
    for i in readers:
        j = matching.partners[0][i]
        if j >= 0:
            for name, value in matching.flows[0].reads[i]:
                if value in part:
                    yield i, j, name


def _read(call: Call, name: str) -> Read:
    return call.inputs[name], call.row


def _by_memory(matching: Matching, part: frozenset[int], of_target: dict[int, int]) -> list[Exit]:
    """Return what `part` writes to memory from outside the step (an optimizer's parameter) as the target does."""
    if matching.calls[0][min(part)].row.phase != "optimizer":
        return []
    for leaf, (i, result) in _leaves_written(matching, 0, part).items():
        other_leaf = matching.leaves.get(leaf)
        for j in matching.flows[1].leaf_readers.get(other_leaf, ()) if other_leaf is not None else ():
            if j in of_target:
                others = (k for k, number in of_target.items() if number == of_target[j])
                written = _leaves_written(matching, 1, others).get(other_leaf) if other_leaf is not None else None
                if written is not None:
                    return [Exit((i, written[0]), (result, written[1]))]
    return []


def _leaves_written(matching: Matching, side: int, part: Iterable[int]) -> dict[Value, tuple[int, Read]]:
    """Return the leaves that `part` writes, with the last call that does and what it leaves there."""
    calls, flow = matching.calls[side], matching.flows[side]
    members = sorted(part)
    leaves = {value for k in members for _, value in flow.reads[k] if value < 0}
    return {
        -tensor.storage: (k, (tensor, calls[k].row))
        for k in members
        for tensor in calls[k].outputs.values()
        if -tensor.storage in leaves
    }


def _region(matching: Matching, group: _Group) -> Region:
    reference, target = members = frozenset(group.reference), frozenset(group.target)
    words = f"{_words(matching, 0, reference)} against {_words(matching, 1, target)}"
    return Region(
        members=members,
        exits=tuple(group.exits),
        inputs=list(_inputs(matching, *members)),
        calls=(
            tuple(matching.calls[0][k] for k in sorted(reference)),
            tuple(matching.calls[1][k] for k in sorted(target)),
        ),
        words=f"{words}, compared where the result leaves them",
    )


def _inputs(matching: Matching, reference: frozenset[int], target: frozenset[int]) -> Iterator[tuple[Read, Read]]:
    """Yield what both sides read from outside: values that correspond, and leaves of one size in their order."""
    first, second = _outer_reads(matching, 0, reference), _outer_reads(matching, 1, target)
    for value, read in first.items():
        other = matching.counterpart(value)
        if other is None and value < 0:
            size = math.prod(read[0].shape)
            other = next((v for v, r in second.items() if v < 0 and math.prod(r[0].shape) == size), None)
        if other is not None and other in second:
            yield read, second.pop(other)


def _outer_reads(matching: Matching, side: int, part: frozenset[int]) -> dict[Value, Read]:
    calls, flow = matching.calls[side], matching.flows[side]
    reads: dict[Value, Read] = {}
    for k in sorted(part):
        for name, value in flow.reads[k]:
            if value not in part:
                reads.setdefault(value, _read(calls[k], name))
    return reads


def _words(matching: Matching, side: int, part: Iterable[int]) -> str:
    names = list(dict.fromkeys(matching.calls[side][k].row.name for k in sorted(part)))
    return listing(names, SHOWN)


def _unpair_split_biases(matching: Matching) -> None:
    """Take back pairs of which one side adds the bias in a call of its own: they belong to a region."""
    for side in (0, 1):
        calls, flow, partners = matching.calls[side], matching.flows[side], matching.partners[side]
        for k in matching.left(side):
            if calls[k].operator != "add":
                continue
            for _, value in flow.reads[k]:
                if value >= 0 and calls[value].operator in BIASED and flow.readers[value] == [k]:
                    other = partners[value]
                    if other >= 0 and len(matching.calls[1 - side][other].inputs) > len(calls[value].inputs):
                        matching.unpair(*((value, other) if side == 0 else (other, value)))


def _unpair_regrouped_sums(matching: Matching) -> None:
    """Take back pairs of additions in the backward pass that make one sum with an addition without a partner.

    A gradient that is a sum of other terms on the other side is added up in another order there: only the whole
    sum corresponds. A partial sum is read by nothing but the next addition.
    """
    for side in (0, 1):
        calls, flow, partners = matching.calls[side], matching.flows[side], matching.partners[side]
        waiting = [k for k in matching.left(side) if _adds_gradients(calls[k])]
        while waiting:
            k = waiting.pop()
            partial = [value for _, value in flow.reads[k] if value >= 0 and flow.readers[value] == [k]]
            whole = flow.readers[k] if len(flow.readers[k]) == 1 else []
            for other in (*partial, *whole):
                if partners[other] >= 0 and _adds_gradients(calls[other]):
                    pair = (other, partners[other])
                    matching.unpair(*(pair if side == 0 else pair[::-1]))
                    waiting.append(other)


def _adds_gradients(call: Call) -> bool:
    return call.operator == "add" and call.row.phase == "backward" and call.row.kind == "op"
