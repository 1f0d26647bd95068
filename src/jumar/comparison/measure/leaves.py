"""`Leaf`: an input from outside the step (data, a parameter, a state) that differs between the runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from jumar.comparison.measure.distances import Measure
from jumar.comparison.measure.records import tensor_diff
from jumar.comparison.measure.tolerance import STATISTICS_FLOOR, epsilon
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import VIEWS
from jumar.comparison.model.results import TensorDiff

Role = Literal["data", "parameter", "state"]

DRIFT = 1e-3
"""Relative difference up to which a leaf of a later step has drifted, from which it is other data."""

OF_INTEGERS = 1e-12
"""Statistics of integers are sums in float64, which two frameworks add up in another order."""

WEIGHTS = frozenset(
    {
        ("convolution", "input.1"),
        ("convolution", "input.2"),
        ("addmm", "input.0"),
        ("addmm", "input.2"),
        ("mm", "input.1"),
        ("linear", "input.1"),
        ("linear", "input.2"),
        ("embedding", "input.0"),
        ("native_layer_norm", "input.2"),
        ("native_layer_norm", "input.3"),
        ("native_batch_norm", "input.1"),
        ("native_batch_norm", "input.2"),
    }
)
"""Where operators take parameters; used only when the recording has no optimizer phase to tell them by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A leaf that differs between the runs."""

    role: Role
    call: Call
    """The first call that reads it (reference side)."""
    diff: TensorDiff
    drifted: bool
    """Differs no more than training on two devices makes it drift."""


def parameter_storages(calls: Iterable[Call]) -> frozenset[int]:
    """Return the storages an optimizer reads or writes in this step: parameters, gradients and its states."""
    return frozenset(
        tensor.storage
        for call in calls
        if call.row.phase == "optimizer"
        for tensor in (*call.inputs.values(), *call.outputs.values())
    )


def leaf_of(call: Call, name: str, found: Measure, parameters: frozenset[int]) -> Leaf | None:
    """Return the leaf when it differs by more than its dtype's rounding, else None."""
    dtypes = found.reference.dtype, found.target.dtype
    allowed = 4.0 * epsilon(*dtypes) if epsilon(*dtypes) else 0.0
    if found.exact is None:
        allowed = max(allowed, STATISTICS_FLOOR if epsilon(*dtypes) else OF_INTEGERS)
    error = found.error()
    if error <= allowed:
        return None
    role = _role(call, name, found, parameters)
    drifted = bool(epsilon(*dtypes)) and error <= DRIFT
    return Leaf(role=role, call=call, diff=tensor_diff(name, found), drifted=drifted or role != "data")


def _role(call: Call, name: str, found: Measure, parameters: frozenset[int]) -> Role:
    if found.reference.storage in parameters:
        return "parameter" if call.row.phase == "forward" else "state"
    if call.row.phase != "forward":
        return "state"
    if call.operator == "native_batch_norm" and name in {"input.3", "input.4"}:
        return "state"
    in_module = bool(call.path) and epsilon(found.reference.dtype) > 0
    if not parameters and in_module and ((call.operator, name) in WEIGHTS or call.operator in VIEWS):
        return "parameter"
    return "data"
