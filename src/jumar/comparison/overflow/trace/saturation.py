"""Finds outputs that end at the largest number of their type: a chip that saturates gives it in place of Inf."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from jumar.comparison.measure.scales import num_nonfinite
from jumar.comparison.model.kinds import TRANSPORT, UNINITIALISED
from jumar.comparison.overflow.trace import semantics
from jumar.comparison.overflow.trace.roles import Roles, identity, reads
from jumar.operators import named
from jumar.recording.schema import CallRow, TensorRow

MAKING = named("exact", "factory", "random")
"""These choose or make values; none can overflow."""

TAKES_UP = named("takes_up")
"""The results of these do not depend on how far an element is below the others."""


@dataclass(frozen=True, slots=True)
class Stop:
    """An output at the end of its type."""

    row: CallRow
    tensor: TensorRow
    value: float
    at_end: bool
    """At the last value of the type, not only at a suspicious one."""
    used: bool


def stops(rows: Sequence[CallRow], roles: Roles) -> list[Stop]:
    """Return outputs at the end of their type whose inputs are not there, in order, each with whether it is used."""
    found = [(row, tensor, value, at_end) for row in rows for tensor, value, at_end in _of_row(row, roles)]
    if not found:
        return []
    live, readers = _flow(rows, roles)
    result, blamed = [], set[Hashable]()
    for row, tensor, value, at_end in found:
        key = identity(tensor)
        after = [operator for seq, operator in readers[key] if seq > row.seq]
        is_taken_up = bool(after) and value < 0 and all(operator in TAKES_UP for operator in after)
        if key not in blamed:
            result.append(Stop(row, tensor, value, at_end, used=key in live and bool(after) and not is_taken_up))
        blamed.add(key)
    return result


def _of_row(row: CallRow, roles: Roles) -> list[tuple[TensorRow, float, bool]]:
    if row.kind != roles.level or row.phase == "optimizer":
        return []
    operator = semantics.operator_of(row.name)
    if (
        operator in MAKING
        or operator in UNINITIALISED
        or (operator in TRANSPORT and operator not in {"_to_copy", "copy"})
    ):
        return []
    candidates = [
        (tensor, value, value == semantics.limit_reached(tensor))
        for tensor in row.outputs
        if (value := semantics.limit_reached(tensor) or semantics.suspicious(tensor)) is not None
    ]
    if not candidates:
        return []
    read = [tensor for tensor in row.inputs if reads(row, operator, tensor)]
    greatest = max((semantics.magnitude(tensor) or 0.0 for tensor in read), default=0.0)
    greatest = max([greatest, *(abs(value) for value in semantics.literals(row) if not math.isnan(value))])
    if any(num_nonfinite(tensor) for tensor in read):
        return []
    return [
        item
        for item in candidates
        if greatest < abs(item[1]) or (operator in {"_to_copy", "copy"} and greatest > abs(item[1]))
    ]


def _flow(rows: Sequence[CallRow], roles: Roles) -> tuple[set[Hashable], dict[Hashable, list[tuple[int, str]]]]:
    """Return the memory that flows into a loss, a parameter or an output, and who reads each memory (seq, operator)."""
    live = set(roles.losses) | roles.parameters
    if not live:
        live = set(roles.results)
    readers: dict[Hashable, list[tuple[int, str]]] = defaultdict(list)
    for row in reversed(rows):
        if row.kind == "parameter":
            live.update(identity(tensor) for tensor in row.inputs)
        if row.kind != roles.level:
            continue
        operator = semantics.operator_of(row.name)
        read = [identity(tensor) for tensor in row.inputs if reads(row, operator, tensor)]
        if operator not in TRANSPORT:
            for key in read:
                readers[key].append((row.seq, operator))
        if row.phase == "optimizer" or any(identity(tensor) in live for tensor in row.outputs):
            live.update(read)
    return live, readers
