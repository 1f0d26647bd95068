"""Decides the fate of a source of NaN or Inf, and makes an `Origin` of the source."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.comparison.measure.scales import num_nonfinite
from jumar.comparison.model.kinds import OVERWRITING, TRANSPORT, UNINITIALISED
from jumar.comparison.overflow.results import Fate, Frame, Origin, sighting
from jumar.comparison.overflow.skips import Skip
from jumar.comparison.overflow.trace import semantics
from jumar.comparison.overflow.trace.causes import cause_of
from jumar.comparison.overflow.trace.roles import Roles, identity
from jumar.comparison.overflow.trace.walk import Source
from jumar.operators import is_in_place
from jumar.recording.schema import CallRow

_NOT_BY_SCALE = {"division", "0 / 0", "logarithm", "negative", "power", "of 0"}


def origin_of(source: Source, rows: Sequence[CallRow], roles: Roles, skip: Skip | None) -> Origin:
    """Return a source with its fate and its cause."""
    cause = cause_of(source, rows)
    row, tensor = source.row, source.tensor
    return Origin(
        **sighting(row, tensor),
        kind=source.kind,
        fate=_fate(source, cause.what, roles, skip),
        shape=tensor.shape,
        num_nan=tensor.num_nan or 0,
        num_inf=tensor.num_inf or 0,
        cause=cause.what,
        action=cause.action,
        reaches=source.reaches,
        absorbed_by=source.absorbed.name if source.absorbed is not None and not source.reaches else "",
        turned_by=_place(source.turned) if source.turned is not None else "",
        is_atomic=semantics.is_atomic(row),
        exact=source.exact,
    )


def _fate(source: Source, cause: str, roles: Roles, skip: Skip | None) -> Fate:
    if skip is not None and not skip.silent and _by_scale(source, cause, roles, skip):
        return "loss-scale"
    if source.reaches:
        return "consumed"
    return "absorbed" if source.num_reads else "unread"


def _by_scale(source: Source, cause: str, roles: Roles, skip: Skip) -> bool:
    """Return whether a smaller loss scale would have avoided it: the loss is finite and a gradient is too large for its
    type."""
    if source.kind != "overflow" or source.reaches == "the loss" or (skip.loss_scale or 2.0) <= 1.0:
        return False
    if any(word in cause for word in _NOT_BY_SCALE):
        return False
    if source.row.phase == "backward":
        return True
    return any(identity(tensor) in roles.losses for tensor in source.row.inputs)  # the loss, multiplied by the scale


def _place(row: CallRow) -> str:
    place = row.module_path or "outside any module"
    return f"{row.name} in {place} ({row.phase}{f', {row.source}' if row.source else ''})"


def frames_before(rows: Sequence[CallRow], seq: int, roles: Roles, number: int) -> list[Frame]:
    """Return the last `number` operators up to the one with this `seq`; views, copies and empty memory left out."""
    before = [
        row
        for row in rows
        if row.seq <= seq
        and row.kind == roles.level
        and (row.seq == seq or semantics.operator_of(row.name) not in TRANSPORT | UNINITIALISED)
    ]
    return [_frame(row) for row in before[-number:]]


def _frame(row: CallRow) -> Frame:
    overwrites = is_in_place(row.name) and semantics.operator_of(row.name) in OVERWRITING
    read = row.inputs[1:] if overwrites else row.inputs
    return Frame(
        seq=row.seq,
        operator=row.name,
        phase=row.phase,
        module_path=row.module_path,
        source=row.source,
        greatest_input=max((m for t in read if (m := semantics.magnitude(t)) is not None), default=None),
        greatest_output=max((m for t in row.outputs if (m := semantics.magnitude(t)) is not None), default=None),
        num_nonfinite=sum(num_nonfinite(tensor) for tensor in row.outputs),
    )
