"""Casts of a step, and which of them undo or surround each other."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.advise.bottlenecks.run import Call, StepView
from jumar.advise.bottlenecks.tensors import copy_of, is_half
from jumar.operators import dtypes, has


@dataclass(frozen=True, slots=True)
class Cast:
    """A copy into another dtype."""

    call: Call
    before: str
    after: str
    position: int
    """Which input is cast."""

    @property
    def direction(self) -> str:
        """`float32 → float16`."""
        return f"{self.before} → {self.after}"


def cast_of(call: Call) -> Cast | None:
    """Return the cast that `call` makes, or None when it keeps the dtype or is no copy."""
    copy = copy_of(call.row)
    if copy is None or copy.source.dtype == copy.target.dtype:
        return None
    return Cast(call, copy.source.dtype, copy.target.dtype, copy.position)


def made_by(step: StepView, call: Call, position: int) -> Call | None:
    """Return the operator that made this input, seen through views; None for a tensor from outside the step."""
    current = step.origin(call, position)
    while current is not None and current.is_view:
        current = step.origin(current, 0) if current.row.inputs else None
    return current


def undone_cast(step: StepView, cast: Cast) -> Cast | None:
    """Return the cast that `cast` directly undoes (same dtype before as after), or None.

    This holds for an integer mask, too: the way back loses nothing, but both casts are needless.
    """
    maker = made_by(step, cast.call, cast.position)
    earlier = None if maker is None else cast_of(maker)
    if earlier is None or earlier.before != cast.after or maker is None:
        return None
    unchanged = cast.call.versions[cast.position] == maker.output_versions[0]
    return earlier if unchanged else None


def island_operator(step: StepView, cast: Cast) -> tuple[Cast, str] | None:
    """Return (the cast up, the operator) when `cast` goes back to half precision after one operator."""
    if not is_half(cast.after) or dtypes.size_bytes(cast.before, 0) <= 2:
        return None
    operator = made_by(step, cast.call, cast.position)
    if operator is None or has(operator.row.name, "copies"):
        return None
    for position in range(len(operator.row.inputs)):
        maker = made_by(step, operator, position)
        up = None if maker is None else cast_of(maker)
        if up is not None and up.before == cast.after and up.after == cast.before:
            return up, operator.row.name
    return None
