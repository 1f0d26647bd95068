"""The comparisons of operators in order; the record of a pair that agrees is made when somebody looks at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from jumar.accuracy.agreement import Agreement
from jumar.accuracy.results import Evidence, OperatorDiff
from jumar.accuracy.shown import evidence_in


class Operators(Sequence[OperatorDiff]):
    """Comparisons in the reference's order of execution, equal to the tuple of their `OperatorDiff`s."""

    __slots__ = ("_kept",)

    def __init__(self, kept: Iterable[OperatorDiff | Agreement] = ()) -> None:
        self._kept = list(kept)

    def append(self, diff: OperatorDiff | Agreement) -> None:
        """Take in the next one."""
        self._kept.append(diff)

    def extend(self, others: Operators) -> None:
        """Take in those that follow."""
        self._kept.extend(others._kept)

    def replace(self, place: int, diff: OperatorDiff) -> None:
        """Put another record in the place of one."""
        self._kept[place] = diff

    def changed(self, change: Callable[[OperatorDiff], OperatorDiff]) -> Operators:
        """Return them with `change` applied to those that were judged; what surely agrees stays."""
        return Operators(kept if isinstance(kept, Agreement) else change(kept) for kept in self._kept)

    def judged(self) -> list[OperatorDiff]:
        """Return those that were judged or looked at; all others agree, with the same arguments on both sides."""
        return [kept for kept in self._kept if not isinstance(kept, Agreement)]

    def counts(self) -> Counter[str]:
        """Return how many there are by status."""
        judged = self.judged()
        counts = Counter(diff.status for diff in judged)
        counts.update({"agree": len(self._kept) - len(judged)} if len(judged) < len(self._kept) else {})
        return Counter(counts)

    def evidence(self) -> set[Evidence]:
        """Return by what the outputs were judged."""
        found: set[Evidence] = set()
        for kept in self._kept:
            found |= kept.evidence() if isinstance(kept, Agreement) else evidence_in(kept.outputs)
        return found

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> OperatorDiff: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[OperatorDiff, ...]: ...

    def __getitem__(self, place: int | slice) -> OperatorDiff | tuple[OperatorDiff, ...]:
        if isinstance(place, slice):
            return tuple(self._at(index) for index in range(*place.indices(len(self._kept))))
        return self._at(range(len(self._kept))[place])

    def __iter__(self) -> Iterator[OperatorDiff]:
        return map(self._at, range(len(self._kept)))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | list | Operators) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _at(self, index: int) -> OperatorDiff:
        kept = self._kept[index]
        if isinstance(kept, Agreement):
            kept = self._kept[index] = kept.diff()
        return kept
