"""Published records of compared pairs: `Shown` (tensors) and `Operators`. They are built when they are read.

Most pairs agree, and their records are never read. A pair that agrees is therefore kept as it was found, and the
statistics of its tensors as plain figures. Records from sketches and whole tensors are built at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, overload

from jumar.comparison.measure.distances import Measure, relative
from jumar.comparison.model.results import Evidence, OperatorDiff, TensorDiff
from jumar.recording.sketch import cosine_of

LOWER_BOUNDS = "from statistics: the figures are lower bounds; cosine and greatest difference are not known"

_FIGURES = (
    "name",
    "shape",
    "target_shape",
    "dtype",
    "target_dtype",
    "error",
    "l2_relative_at_least",
    "max_abs_at_least",
    "num_nonfinite",
    "target_num_nonfinite",
    "note",
)
"""Fields of a `TensorDiff` with evidence `statistics`; the others have their defaults."""

_Kept = TensorDiff | tuple[Any, ...]

RecordT = TypeVar("RecordT", TensorDiff, OperatorDiff)


class Postponed(Protocol):
    """A pair of calls that agrees. Its record is made when it is read."""

    def diff(self) -> OperatorDiff:
        """Return the record."""

    def evidence(self) -> set[Evidence]:
        """Return by what the outputs were judged."""


class _Late(Sequence[RecordT]):
    """Records in order, equal to their tuple. Each is built when it is read."""

    __slots__ = ("_kept",)
    _kept: list[Any]

    def _at(self, index: int) -> RecordT:
        """Return the record at `index`, from now on built."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> RecordT: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RecordT, ...]: ...

    def __getitem__(self, place: int | slice) -> RecordT | tuple[RecordT, ...]:
        if isinstance(place, slice):
            return tuple([self._at(index) for index in range(*place.indices(len(self._kept)))])
        return self._at(range(len(self._kept))[place])

    def __iter__(self) -> Iterator[RecordT]:
        return map(self._at, range(len(self._kept)))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | list | _Late) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class Shown(_Late[TensorDiff]):
    """Tensors of one side of a pair."""

    __slots__ = ()

    def __init__(self, measures: Iterable[tuple[str, Measure, float | None]]) -> None:
        """Take (name, measure, error) of each tensor; `error` as for `tensor_diff`."""
        self._kept = [_kept(name, found, error) for name, found, error in measures]

    def _at(self, index: int) -> TensorDiff:
        kept = self._kept[index]
        if not isinstance(kept, TensorDiff):
            kept = self._kept[index] = TensorDiff(evidence="statistics", **dict(zip(_FIGURES, kept, strict=True)))
        return kept

    def evidence(self) -> set[Evidence]:
        """Return by what the tensors were judged, without building them."""
        return {kept.evidence if isinstance(kept, TensorDiff) else "statistics" for kept in self._kept}


def evidence_in(tensors: Sequence[TensorDiff]) -> set[Evidence]:
    """Return by what the tensors were judged."""
    return tensors.evidence() if isinstance(tensors, Shown) else {tensor.evidence for tensor in tensors}


def _kept(name: str, found: Measure, error: float | None) -> _Kept:
    if not found.known or found.exact is not None or found.sketched is not None or found.hashed:
        return tensor_diff(name, found, error)
    a, b = found.reference, found.target
    judged = found.error() if error is None else error
    return (
        name,
        a.shape,
        b.shape,
        a.dtype,
        b.dtype,
        judged,
        relative(found.l2_error, found.l2) if found.l2_error else 0.0,
        found.max_error,
        found.num_nonfinite,
        found.target_num_nonfinite,
        found.note or (LOWER_BOUNDS if judged else ""),
    )


def tensor_diff(name: str, found: Measure, error: float | None = None) -> TensorDiff:
    """Return the public form of a measure. `error` is the judged figure; None for the tensor's own scale."""
    a, b = found.reference, found.target
    exact, sketched, evidence = found.exact, found.sketched, found.evidence
    judged: float | None = error if error is not None else 0.0 if found.equal else found.error()
    if not found.known or (found.hashed and found.nonfinite_differs):
        judged = None
    bounds = found.known and exact is None and not found.hashed
    cosine = l2_relative = None
    if exact is not None:
        cosine, l2_relative = exact.cosine, exact.l2_relative
    elif sketched is not None:
        cosine, l2_relative = _estimates(found, sketched.estimate)
    note = found.note
    if sketched is not None and sketched.estimate and not note:
        note = "from sketches: l2_relative and cosine are estimates, the true distance is within half of it (99.9 %)"
    elif evidence == "statistics" and judged and not note:
        note = LOWER_BOUNDS
    return TensorDiff(
        name=name,
        shape=a.shape,
        target_shape=b.shape,
        dtype=a.dtype,
        target_dtype=b.dtype,
        evidence=evidence,
        error=judged,
        cosine=cosine,
        l2_relative=l2_relative,
        max_abs=exact.max_abs if exact else None,
        max_relative=exact.max_relative if exact else None,
        num_different=exact.num_different if exact else None,
        l2_relative_at_least=(relative(found.l2_error, found.l2) if found.l2_error else 0.0) if bounds else None,
        max_abs_at_least=found.max_error if bounds else None,
        num_nonfinite=found.num_nonfinite,
        target_num_nonfinite=found.target_num_nonfinite,
        note=note,
    )


def _estimates(found: Measure, apart: float) -> tuple[float | None, float | None]:
    """Return the estimated cosine and relative L2 error of tensors `apart` from each other; None without a norm."""
    l2_a, l2_b = found.reference.l2, found.target.l2
    if not l2_a or not l2_b:
        return None, None
    return cosine_of(apart, l2_a, l2_b) if apart else 1.0, apart / l2_a


class Operators(_Late[OperatorDiff]):
    """Comparisons of operators in the reference's order of execution."""

    __slots__ = ()

    def __init__(self, kept: Iterable[OperatorDiff | Postponed] = ()) -> None:
        self._kept = list(kept)

    def append(self, diff: OperatorDiff | Postponed) -> None:
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
        return Operators(change(kept) if isinstance(kept, OperatorDiff) else kept for kept in self._kept)

    def judged(self) -> list[OperatorDiff]:
        """Return those that were judged or looked at; all others agree, with the same arguments on both sides."""
        return [kept for kept in self._kept if isinstance(kept, OperatorDiff)]

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
            found |= evidence_in(kept.outputs) if isinstance(kept, OperatorDiff) else kept.evidence()
        return found

    def _at(self, index: int) -> OperatorDiff:
        kept: OperatorDiff | Postponed = self._kept[index]
        if isinstance(kept, OperatorDiff):
            return kept
        diff = self._kept[index] = kept.diff()
        return diff
