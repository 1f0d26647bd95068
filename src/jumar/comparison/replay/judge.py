"""Decides whether the error of an operator is its own fault or rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from jumar.comparison.measure.scales import scale
from jumar.comparison.measure.tolerance import ErrorModel, epsilon, error_model, rounding
from jumar.comparison.model.calls import Call, calls_of
from jumar.comparison.model.kinds import SELECTIVE
from jumar.comparison.replay.figures import Sides, output_error, sides
from jumar.comparison.replay.rebuilt.memory import Array
from jumar.comparison.replay.results import OutputError, OwnError
from jumar.recording.schema import CallRow, TensorRow

AS_GOOD_AS_THE_CPU = 4.0
"""An error up to this multiple of the CPU's own kernel in the same dtype is no fault: ill-conditioned operators
(a solver, a cancelling sum) amplify one rounding error beyond any general model."""

SWITCHED_SHARE = 1e-3
"""Share of the elements of a discontinuous operator (floor, ReLU's gradient) that rounding may switch, and one more."""

AMBIGUOUS = {
    "_linalg_svd": ("output.1",),
    "_linalg_eigh": ("output.0",),
    "linalg_eig": (),
    "_linalg_eigvals": (),
    "_ctc_loss": ("output.0",),
    "sort": ("output.0",),
    "topk": ("output.0",),
    "kthvalue": ("output.0",),
    "median": ("output.0",),
    "nanmedian": ("output.0",),
    "mode": ("output.0",),
    "max": ("output.0",),
    "min": ("output.0",),
}
"""Operators with outputs that are not unique (a vector's sign, the order of equal elements) or hold uninitialised
memory in part, to the ones that can be judged."""


def own_error(row: CallRow, recorded: Mapping[str, Array], exact: Mapping[str, torch.Tensor]) -> OwnError:
    """Return the error of the recorded outputs of `row` against the exact ones. Outputs without an exact one are left
    out."""
    call = _as_call(row)
    model = error_model(call)
    found: dict[str, OutputError] = {}
    for tensor in row.outputs:
        both = _both(tensor, recorded, exact)
        if both is None or not _is_unique(row, call, tensor):
            continue
        excused = _excused(call, tensor)
        natural = _natural(call, tensor.name)
        found[tensor.name] = output_error(tensor.name, both, _tolerance(model, tensor, both), natural, excused)
    return OwnError(outputs=tuple(found.values()))


def natural_scales(row: CallRow) -> dict[str, float]:
    """Return, by output, the L2 norm it would have if no terms cancelled; 0 where that is not known."""
    call = _as_call(row)
    return {tensor.name: _natural(call, tensor.name) for tensor in row.outputs}


def with_control(own: OwnError, control: OwnError) -> OwnError:
    """Return the errors with tolerances that the CPU's kernel of the same dtype keeps as well."""
    of_cpu = {output.name: output.error for output in control.outputs}
    return OwnError(
        outputs=tuple(
            replace(output, tolerance=max(output.tolerance, AS_GOOD_AS_THE_CPU * of_cpu.get(output.name, 0.0)))
            for output in own.outputs
        )
    )


def exceeds(own: OwnError) -> bool:
    """Return whether an output is off by more than its tolerance."""
    worst = own.worst
    return worst is not None and worst.excess > 1.0


def _as_call(row: CallRow) -> Call:
    """Return the row as one call, lists not taken apart."""
    inputs = {tensor.name: tensor for tensor in row.inputs}
    outputs = {tensor.name: tensor for tensor in row.outputs}
    first = next(iter(calls_of([row])), None)
    operator = first.operator if first is not None else row.name
    return Call(row=row, operator=operator, path=row.module_path, inputs=inputs, outputs=outputs)


def _both(tensor: TensorRow, recorded: Mapping[str, Array], exact: Mapping[str, torch.Tensor]) -> Sides | None:
    if tensor.name not in recorded or tensor.name not in exact:
        return None
    return sides(recorded[tensor.name], exact[tensor.name], tensor)


def _is_unique(row: CallRow, call: Call, tensor: TensorRow) -> bool:
    unique = AMBIGUOUS.get(call.operator)
    return unique is None or tensor.name in unique or len(row.outputs) == 1


def _excused(call: Call, tensor: TensorRow) -> float:
    from_floats = any(epsilon(source.dtype) for source in call.inputs.values())
    if call.operator in SELECTIVE or (epsilon(tensor.dtype) == 0 and from_floats and not _is_exact(call)):
        return 1.0 + SWITCHED_SHARE * math.prod(tensor.shape)
    return 0.0


def _is_exact(call: Call) -> bool:
    return error_model(call).exact


def _natural(call: Call, name: str) -> float:
    """Return the scale of the calculation; the scales know operators by their inputs' places, not lists."""
    return scale(call, name) if call.inputs and not any(name.count(".") > 1 for name in call.inputs) else 0.0


def _tolerance(model: ErrorModel, tensor: TensorRow, both: Sides) -> float:
    """Return the error that rounding explains: none where values only move and the dtype holds each of them."""
    eps = epsilon(tensor.dtype)
    if eps == 0:
        return 0.0
    if model.exact:
        is_number = bool((both.rounded.to(both.exact.dtype) == both.exact).all())
        return 0.0 if is_number else eps
    return rounding(model, tensor, tensor)
