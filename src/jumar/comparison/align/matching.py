"""`Dataflow` says which call reads what which other call wrote; `Matching` holds the pairs of calls found so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import OVERWRITING, TRANSPORT, UNINITIALISED
from jumar.operators import is_in_place
from jumar.recording.schema import TensorRow

Value = int


class Dataflow:
    """Values that the calls of one side read and write. Without storage numbers (`known` is False) there are none."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.reads: list[tuple[tuple[str, Value], ...]] = []
        """For each call the names of its inputs and their values."""
        self.readers: list[list[int]] = [[] for _ in calls]
        """For each call the calls that read what it wrote."""
        self.leaf_readers: dict[Value, list[int]] = {}
        self.known = any(tensor.storage for call in calls for tensor in call.inputs.values())
        self._now: dict[int, Value] = {}
        for index, call in enumerate(calls):
            self.reads.append(tuple(self._read(call)) if self.known else ())
            if self.known:
                self._write(index, call)

    def _read(self, call: Call) -> list[tuple[str, Value]]:
        overwritten = overwrites_first(call)
        return [
            (name, self._now.get(tensor.storage, -tensor.storage))
            for name, tensor in call.inputs.items()
            if tensor.storage and not (overwritten and name == "input.0")
        ]

    def _write(self, index: int, call: Call) -> None:
        reads = self.reads[index]
        if call.operator in TRANSPORT:
            value = reads[0][1] if reads else index
        else:
            value = index
            for _, read in reads:
                (self.readers[read] if read >= 0 else self.leaf_readers.setdefault(read, [])).append(index)
        if call.operator not in UNINITIALISED:
            for tensor in writes(call):
                self._now[tensor.storage] = value


def overwrites_first(call: Call) -> bool:
    """Return whether a call fills its first argument without reading it."""
    return call.operator in OVERWRITING and is_in_place(call.row.name)


def writes(call: Call) -> list[TensorRow]:
    """Return the tensors a call writes: its outputs, or its first argument when it works in place."""
    if call.outputs:
        return list(call.outputs.values())
    return [call.inputs["input.0"]] if is_in_place(call.row.name) and "input.0" in call.inputs else []


@dataclass(slots=True)
class Pair:
    """A call in both runs, or (None on the other side) in one."""

    reference: Call | None
    target: Call | None
    region: str = ""
    """Words for the region of calls, other on each side, that this pair is the border of or this call is within."""
    members: tuple[tuple[Call, ...], tuple[Call, ...]] = ((), ())
    """Of the border of a region: its calls on each side."""
    certain: bool = False
    """Of a call alone: surely an extra one, not part of a calculation that the other side makes with other calls.
    Of the border of a region: no other result of the region has its size, so that both sides surely mean the same."""


class Matching:
    """The calls of both sides (0 the reference, 1 the target), their dataflow, and the pairs found so far."""

    def __init__(
        self, reference: Sequence[Call], target: Sequence[Call], of_reference: Dataflow, of_target: Dataflow
    ) -> None:
        self.calls = (reference, target)
        self.flows = (of_reference, of_target)
        self.partners = ([-1] * len(reference), [-1] * len(target))
        """The index of each call's partner on the other side, -1 without one."""
        self.leaves: dict[Value, Value] = {}
        """Memory from outside the step: the reference's leaf to the target's."""
        self.moved: list[tuple[int, int]] = []
        """Pairs at other places in the order."""

    @classmethod
    def of_equal(cls, reference: Sequence[Call], target: Sequence[Call]) -> Matching:
        """Return the matching of two sequences that are paired one by one; their dataflow is not looked at."""
        found = cls(reference, target, Dataflow(()), Dataflow(()))
        found.partners = (list(range(len(reference))), list(range(len(target))))
        return found

    @property
    def knows_values(self) -> bool:
        """Whether the dataflow of both sides is known."""
        return self.flows[0].known and self.flows[1].known

    def know(self, parameters: tuple[Mapping[int, str], Mapping[int, str]]) -> None:
        """Take the storages that hold a parameter of one name for the same."""
        of_target = {name: storage for storage, name in parameters[1].items()}
        self.leaves.update({-storage: -of_target[name] for storage, name in parameters[0].items()})

    def pair(self, i: int, j: int) -> None:
        """Take the reference's i-th and the target's j-th call for the same."""
        self.partners[0][i], self.partners[1][j] = j, i
        target = dict(self.flows[1].reads[j])
        for name, value in self.flows[0].reads[i]:
            other = target.get(name)
            if value < 0 and other is not None and other < 0:
                self.leaves.setdefault(value, other)

    def unpair(self, i: int, j: int) -> None:
        """Take back that both are the same."""
        self.partners[0][i] = self.partners[1][j] = -1
        if (i, j) in self.moved:
            self.moved.remove((i, j))

    def counterpart(self, value: Value) -> Value | None:
        """Return the target's value that is the reference's `value`, or None while that is not known."""
        if value < 0:
            return self.leaves.get(value)
        found = self.partners[0][value]
        return found if found >= 0 else None

    def left(self, side: int) -> list[int]:
        """Return the calls of a side that have no partner, in order."""
        return [index for index, other in enumerate(self.partners[side]) if other < 0]


ALIKE = 0.01
"""Relative difference of two norms up to which parameters of one name and shape may be one parameter."""


def match_parameters(matching: Matching) -> None:
    """Pair rows of parameters whose modules were not recognised as one, by name, shape and norm, in their order."""
    left = [[k for k in matching.left(side) if matching.calls[side][k].row.kind == "parameter"] for side in (0, 1)]
    for i in left[0]:
        first = matching.calls[0][i]
        j = next((j for j in left[1] if _may_be_one(first, matching.calls[1][j])), None)
        if j is not None:
            left[1].remove(j)
            matching.pair(i, j)


def _may_be_one(first: Call, second: Call) -> bool:
    if first.token != second.token or len(first.outputs) != 1 or len(second.outputs) != 1:
        return False
    norms = [tensor.l2 for call in (first, second) for tensor in call.outputs.values()]
    if None in norms:
        return False
    one, other = (norm or 0.0 for norm in norms)
    return abs(one - other) <= ALIKE * max(one, other)


def match_moved(matching: Matching) -> None:
    """Pair what is left on both sides, first along the reads, then against them."""
    left = matching.left(0)
    if not left or not any(j < 0 for j in matching.partners[1]):
        return
    if matching.knows_values:
        for order in (left, left[::-1]):
            for i in order:
                if matching.partners[0][i] < 0:
                    _pair_by_values(matching, i)
    _pair_in_order(matching)


def _pair_by_values(matching: Matching, i: int) -> None:
    call = matching.calls[0][i]
    if call.row.kind != "op" or call.layout_only:
        return
    for j in (*_readers_of_the_same(matching, i), *_makers_for_the_same(matching, i)):
        other = matching.calls[1][j]
        if matching.partners[1][j] >= 0 or (other.row.phase, other.token) != (call.row.phase, call.token):
            continue
        if not _contradict(matching, i, j):
            matching.pair(i, j)
            matching.moved.append((i, j))
            return


def _contradict(matching: Matching, i: int, j: int) -> bool:
    """Return whether a call of each side read values that are known not to correspond."""
    reference, target = dict(matching.flows[0].reads[i]), dict(matching.flows[1].reads[j])
    known = [(matching.counterpart(reference[name]), target[name]) for name in reference if name in target]
    return any(value is not None and value != found for value, found in known)


def match_by_values(matching: Matching) -> None:
    """Give a call without a partner the one whose partner reads other values than it does, where it reads the same.

    Of several calls of one operator and shape, the order may have paired the wrong ones.
    """
    for side in (0, 1) if matching.knows_values else ():
        for k in matching.left(side):
            if matching.calls[side][k].row.kind == "op" and not matching.calls[side][k].layout_only:
                _take_over(matching, side, k)


def _take_over(matching: Matching, side: int, k: int) -> None:
    call = matching.calls[side][k]
    made = [matching.partners[side][value] for _, value in matching.flows[side].reads[k] if value >= 0]
    for other in [reader for value in made if value >= 0 for reader in matching.flows[1 - side].readers[value]]:
        wrong = matching.partners[1 - side][other]
        found = matching.calls[1 - side][other]
        if wrong < 0 or (found.row.phase, found.place, found.token) != (call.row.phase, call.place, call.token):
            continue
        paired, better = ((other, wrong), (other, k)) if side else ((wrong, other), (k, other))
        if _contradict(matching, *paired) and not _contradict(matching, *better):
            matching.unpair(*paired)
            matching.pair(*better)
            return


def _readers_of_the_same(matching: Matching, i: int) -> Iterator[int]:
    """Yield the target's calls that read what the reference's i-th call reads."""
    flow = matching.flows[1]
    for _, value in matching.flows[0].reads[i]:
        other = matching.counterpart(value)
        if other is not None:
            yield from (flow.readers[other] if other >= 0 else flow.leaf_readers.get(other, ()))


def _makers_for_the_same(matching: Matching, i: int) -> Iterator[int]:
    """Yield the target's calls whose results are read where the result of the reference's i-th call is."""
    for reader in matching.flows[0].readers[i]:
        other = matching.partners[0][reader]
        if other >= 0:
            target = dict(matching.flows[1].reads[other])
            for name, value in matching.flows[0].reads[reader]:
                if value == i and target.get(name, -1) >= 0:
                    yield target[name]


def _pair_in_order(matching: Matching) -> None:
    """Pair views, and where no values are known any calls, by phase, operator and shape."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for j in reversed(matching.left(1)):
        call = matching.calls[1][j]
        if call.row.kind == "op":
            waiting[call.row.phase, call.token].append(j)
    for i in matching.left(0):
        call = matching.calls[0][i]
        if call.row.kind != "op" or not (call.layout_only or not matching.knows_values or not call.inputs):
            continue
        candidates = waiting.get((call.row.phase, call.token), [])
        fitting = next((j for j in reversed(candidates) if not _contradict(matching, i, j)), None)
        if fitting is not None:
            candidates.remove(fitting)
            matching.pair(i, fitting)
