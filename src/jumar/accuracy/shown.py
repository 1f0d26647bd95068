"""Tensor figures of a pair of calls as they are shown, built when somebody looks.

Of most pairs nobody does: they agree. What statistics say of a tensor is kept as plain figures until then; what
sketches and whole tensors say is built at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from jumar.accuracy.measure import LOWER_BOUNDS, Measure, relative, tensor_diff
from jumar.accuracy.results import Evidence, TensorDiff

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

_NONFINITE = _FIGURES.index("num_nonfinite")

_Kept = TensorDiff | tuple[Any, ...]


class Shown(Sequence[TensorDiff]):
    """Tensors of one side of a pair, equal to the tuple of their `TensorDiff`s."""

    __slots__ = ("_kept",)

    def __init__(self, measures: Iterable[tuple[str, Measure, float | None]]) -> None:
        """Take (name, measure, error) of each tensor; `error` as for `measure.tensor_diff`."""
        self._kept: list[_Kept] = [_kept(name, found, error) for name, found, error in measures]

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> TensorDiff: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[TensorDiff, ...]: ...

    def __getitem__(self, place: int | slice) -> TensorDiff | tuple[TensorDiff, ...]:
        return self._built()[place]

    def __iter__(self) -> Iterator[TensorDiff]:
        return iter(self._built())

    def __eq__(self, other: object) -> bool:
        return self._built() == tuple(other) if isinstance(other, tuple | Shown) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._built())

    def __repr__(self) -> str:
        return repr(self._built())

    def _built(self) -> tuple[TensorDiff, ...]:
        built = tuple([kept if isinstance(kept, TensorDiff) else _diff(kept) for kept in self._kept])
        self._kept = list(built)
        return built

    def evidence(self) -> set[Evidence]:
        """Return by what the tensors were judged, without building them."""
        return {kept.evidence if isinstance(kept, TensorDiff) else "statistics" for kept in self._kept}

    def nonfinite_differs(self) -> bool:
        """Return whether a tensor has more NaN or Inf elements on one side, without building any."""
        for kept in self._kept:
            if isinstance(kept, TensorDiff):
                if kept.nonfinite_differs:
                    return True
            elif kept[_NONFINITE] != kept[_NONFINITE + 1]:
                return True
        return False


def evidence_in(tensors: Sequence[TensorDiff]) -> set[Evidence]:
    """Return by what the tensors were judged."""
    return tensors.evidence() if isinstance(tensors, Shown) else {tensor.evidence for tensor in tensors}


def nonfinite_differs(tensors: Sequence[TensorDiff]) -> bool:
    """Return whether a tensor has more NaN or Inf elements on one side."""
    if isinstance(tensors, Shown):
        return tensors.nonfinite_differs()
    return any(tensor.nonfinite_differs for tensor in tensors)


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
        relative(found.l2_error, found.l2),
        found.max_error,
        found.num_nonfinite,
        found.target_num_nonfinite,
        found.note or (LOWER_BOUNDS if judged else ""),
    )


def _diff(figures: tuple[Any, ...]) -> TensorDiff:
    return TensorDiff(evidence="statistics", **dict(zip(_FIGURES, figures, strict=True)))
