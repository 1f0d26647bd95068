"""Which call of one side belongs to which of the other, while it is being found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.accuracy.calls import Call
from jumar.accuracy.dataflow import Dataflow, Value


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
    """Of a call alone: surely an extra one, not part of a calculation that the other side makes with other calls."""


class Matching:
    """The calls of both sides (0 the reference, 1 the target), their dataflow, and the pairs found so far."""

    def __init__(self, reference: Sequence[Call], target: Sequence[Call], mine: Dataflow, theirs: Dataflow) -> None:
        self.calls = (reference, target)
        self.flows = (mine, theirs)
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

    def pair(self, i: int, j: int) -> None:
        """Take the reference's i-th and the target's j-th call for the same."""
        self.partners[0][i], self.partners[1][j] = j, i
        theirs = dict(self.flows[1].reads[j])
        for name, value in self.flows[0].reads[i]:
            other = theirs.get(name)
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
