"""Regions: one calculation that the two runs make with other operators.

Attention kernels against product, softmax, product; a linear layer against product and sum; a fused
optimizer against its parts: calls left over on each side that hang together and hand their result to
the same call are one region. Nothing inside it is compared; its results are, as the next call reads
them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jumar.accuracy.calls import Call
from jumar.accuracy.dataflow import Value
from jumar.accuracy.matching import Matching, Pair
from jumar.recording.schema import CallRow, TensorRow

OPERATOR = "region"
"""Canonical name of the calculation of a region."""

SHOWN = 4
"""Operators of a side that are named in words."""

BIASED = frozenset({"convolution", "linear", "addmm", "baddbmm"})
"""Operators that may leave the sum with a bias to a call of its own."""

Read = tuple[TensorRow, CallRow]
"""A tensor and the row that holds it."""


@dataclass(slots=True)
class Region:
    """Calls of both sides that stand for each other, and one result of theirs."""

    members: tuple[frozenset[int], frozenset[int]]
    """Indices of the calls of the reference and of the target."""
    exit: tuple[int, int]
    """The calls whose results are compared."""
    results: tuple[Read, Read]
    """The result, as it is read next on each side."""
    inputs: list[tuple[Read, Read]]
    """What both sides read from outside."""
    calls: tuple[tuple[Call, ...], tuple[Call, ...]]
    """The calls of each side in order, as `members`."""
    exit_calls: tuple[Call, Call]
    """The calls of `exit`."""
    words: str

    def border(self) -> Pair:
        """Return the region as a pair of calls, each with the inputs and the result of its whole side."""
        return Pair(self._call(0), self._call(1), self.words, self.calls)

    def _call(self, side: int) -> Call:
        inputs = {f"input.{k}": _like(pair[side], pair[0]) for k, pair in enumerate(self.inputs)}
        result = _like(self.results[side], self.results[0])
        tensors = (
            *zip(inputs.values(), (pair[side][1] for pair in self.inputs), strict=True),
            (result, self.results[side][1]),
        )
        call = self.exit_calls[side]
        return replace(
            call,
            operator=OPERATOR,
            inputs=inputs,
            outputs={"output.0": result},
            item=None,
            homes={id(tensor): row for tensor, row in tensors},
        )


def _like(read: Read, reference: Read) -> TensorRow:
    """Return the tensor, in the reference's shape where both are views of one: what depends on order is left out."""
    tensor, other = read[0], reference[0]
    if tensor.shape == other.shape or math.prod(tensor.shape) != math.prod(other.shape):
        return tensor
    return replace(tensor, shape=other.shape, sketch=None, hash="")


def find_regions(matching: Matching) -> list[Region]:
    """Return the regions among the calls that have no partner; calls that belong to one stay without."""
    if not matching.knows_values:
        return []
    _unpair_split_biases(matching)
    parts = components(matching, 0), components(matching, 1)
    of_target = {index: part for part in parts[1] for index in part}
    taken: set[int] = set()
    regions = []
    for part in parts[0]:
        found = _by_readers(matching, part, of_target) or _by_memory(matching, part, of_target)
        for region in found[:1]:
            if not taken & region.members[1]:
                taken |= region.members[1]
                regions.append(region)
    return regions


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


def _by_readers(matching: Matching, part: frozenset[int], of_target: dict[int, frozenset[int]]) -> list[Region]:
    """Return the regions whose results the same calls read, the one seen by most of them first."""
    seen: dict[tuple[int, int], tuple[Read, Read]] = {}
    votes: Counter[frozenset[int]] = Counter()
    for i, j, name in _results(matching, part):
        theirs = dict(matching.flows[1].reads[j])
        value = theirs.get(name, -1)
        if value in of_target:
            votes[of_target[value]] += 1
            maker = dict(matching.flows[0].reads[i])[name]
            seen.setdefault((maker, value), (_read(matching.calls[0][i], name), _read(matching.calls[1][j], name)))
    if not votes:
        return []
    other = votes.most_common(1)[0][0]
    exits = [(makers, reads) for makers, reads in seen.items() if makers[1] in other]
    return [_region(matching, part, other, *max(exits, key=_size))]


def _size(exit_: tuple[tuple[int, int], tuple[Read, Read]]) -> tuple[bool, int]:
    """Return how good a result is to compare: of one shape on both sides, many elements (not a last state)."""
    first, second = (read[0].shape for read in exit_[1])
    return math.prod(first) == math.prod(second), math.prod(first)


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


def _by_memory(matching: Matching, part: frozenset[int], of_target: dict[int, frozenset[int]]) -> list[Region]:
    """Return the region that writes the same memory from outside the step (an optimizer's update of a parameter)."""
    if matching.calls[0][min(part)].row.phase != "optimizer":
        return []
    for leaf, (i, result) in _leaves_written(matching, 0, part).items():
        other_leaf = matching.leaves.get(leaf)
        for j in matching.flows[1].leaf_readers.get(other_leaf, ()) if other_leaf is not None else ():
            other = of_target.get(j)
            written = _leaves_written(matching, 1, other).get(other_leaf) if other and other_leaf else None
            if other and written:
                return [_region(matching, part, other, (i, written[0]), (result, written[1]))]
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


def _region(
    matching: Matching,
    mine: frozenset[int],
    theirs: frozenset[int],
    exits: tuple[int, int],
    results: tuple[Read, Read],
) -> Region:
    words = f"{_words(matching, 0, mine)} against {_words(matching, 1, theirs)}"
    return Region(
        members=(mine, theirs),
        exit=exits,
        results=results,
        inputs=list(_inputs(matching, mine, theirs)),
        calls=(tuple(matching.calls[0][k] for k in sorted(mine)), tuple(matching.calls[1][k] for k in sorted(theirs))),
        exit_calls=(matching.calls[0][exits[0]], matching.calls[1][exits[1]]),
        words=f"{words}, compared where the result leaves them",
    )


def _inputs(matching: Matching, mine: frozenset[int], theirs: frozenset[int]) -> Iterator[tuple[Read, Read]]:
    """Yield what both sides read from outside: values that correspond, and leaves of one size in their order."""
    first, second = _outer_reads(matching, 0, mine), _outer_reads(matching, 1, theirs)
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
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


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
