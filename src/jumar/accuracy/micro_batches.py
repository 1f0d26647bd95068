"""Gradients of runs that cut a step into other micro-batches: nothing before them can be compared.

A gradient is judged against the loss's tolerance of that step, relative to its own norm, or to a share of
the norm of all gradients where it is small: terms that cancel (a bias before a normalisation) leave only
rounding.
"""

from __future__ import annotations

import math
from dataclasses import replace

from jumar.accuracy.align import AlignedStep
from jumar.accuracy.losses import loss_tolerance
from jumar.accuracy.results import OperatorDiff
from jumar.accuracy.walk import StepOutcome

SMALL = 0.01
"""Share of the norm of all gradients below which a gradient is judged against that share."""

NOTE = "its gradient differs; the operators that made it run on micro-batches of other sizes and were not compared"


def judge_gradients(outcome: StepOutcome, step: AlignedStep, number: int, coarsest: float) -> None:
    """Make the first parameter whose gradient differs by too much the first divergence of the step.

    `number` counts the steps from the first common one, `coarsest` is the coarsest epsilon the runs calculate in.
    """
    if not step.parameters_only or outcome.first is not None:
        return
    norms = {
        call.row.seq: call.inputs["input.grad"].l2 or 0.0 for call in step.reference if "input.grad" in call.inputs
    }
    whole = math.sqrt(sum(norm * norm for norm in norms.values()))
    tolerance = loss_tolerance(number, coarsest)
    for place, diff in enumerate(outcome.operators):
        norm = norms.get(diff.reference_seq if diff.reference_seq is not None else -1)
        error = next((tensor.error for tensor in diff.inputs if tensor.name == "input.grad"), None)
        if norm is None or error is None:
            continue
        allowed = tolerance * max(1.0, SMALL * whole / norm) if norm else math.inf
        if error > allowed:
            outcome.first = _diverging(diff, error, allowed)
            outcome.operators.replace(place, outcome.first)
            return


def _diverging(diff: OperatorDiff, error: float, allowed: float) -> OperatorDiff:
    gradient = tuple(tensor for tensor in diff.inputs if tensor.name == "input.grad")
    return replace(
        diff,
        status="diverge",
        error=error,
        tolerance=allowed,
        tolerance_origin="the loss's tolerance of this step",
        outputs=gradient,
        inputs=(),
        note=NOTE,
    )
