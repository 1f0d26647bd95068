"""Which row of the reference belongs to a row of the target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jumar.accuracy.align import align_step
from jumar.accuracy.calls import calls_of
from jumar.accuracy.modules import match_modules
from jumar.accuracy.pairing import argument_differences, same_operator
from jumar.accuracy.replay.execute import Inputs
from jumar.accuracy.replay.invocation import TensorAt
from jumar.recording.schema import CallRow


def partners(reference: Sequence[CallRow], target: Sequence[CallRow]) -> dict[int, CallRow]:
    """Return, by the `seq` of rows of the target, the rows of the reference: calls of the same operator only."""
    found: dict[int, CallRow] = {}
    modules = match_modules(reference, target)
    for pair in align_step(reference, target, (modules.names(0), modules.names(1))).pairs:
        if pair.reference is None or pair.target is None or pair.target.row.kind != "op":
            continue
        if same_operator(pair.reference, pair.target) and (pair.reference.item is None) == (pair.target.item is None):
            found.setdefault(pair.target.row.seq, pair.reference.row)
    return found


def with_tensors_of(target: Inputs, reference: Inputs) -> Inputs | None:
    """Return the target's call with the reference's tensors; None when they do not fit its arguments.

    Shapes may differ in nothing, dtypes in anything: the truth is float64 on both sides.
    """
    mine = {name: value for name, value in reference.invocation.values.items() if _holds_tensor(value)}
    theirs = {name: value for name, value in target.invocation.values.items() if _holds_tensor(value)}
    if mine.keys() != theirs.keys() or reference.only != target.only:
        return None
    shapes = [tensor.shape for tensor in reference.invocation.tensors]
    if shapes != [tensor.shape for tensor in target.invocation.tensors]:
        return None
    invocation = target.invocation.with_values(mine)
    return Inputs(target.row, invocation, reference.arrays, target.only)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, TensorAt) or (isinstance(value, list) and any(isinstance(v, TensorAt) for v in value))


def other_arguments(reference: CallRow, target: CallRow) -> dict[str, tuple[Any, Any]]:
    """Return the scalar arguments that differ, by name: reference, target."""
    first, second = next(iter(calls_of([reference])), None), next(iter(calls_of([target])), None)
    if first is None or second is None:
        return {}
    try:
        return {diff.name: (diff.reference, diff.target) for diff in argument_differences(first, second)}
    except json.JSONDecodeError:
        return {}
