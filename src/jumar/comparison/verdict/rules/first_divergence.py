"""JM301 first-divergence.

## What it does
Names the first operator, in the order of execution, whose outputs differ between the two runs by more
than rounding and the differences of its own inputs explain. The error of an output is the greater of
the L2 distance and the greatest distance of an element, each relative to the scale of the calculation.
It is given in multiples of the noise floor: what correct executions of this operator on these inputs
differ by, measured from floor recordings (`--floor`) or estimated from machine epsilon, the number of
terms that are summed and what the inputs' differences may have grown to. From 8 times the floor on it is an
error. Where the difference arises in calls that only one run makes, those are named; where parameters
part though their gradients agree, the optimizer is.

## Why it matters
Everything after the first divergence differs because of it. A table of all operators hides the one
that matters.

## Example
```text
aten::native_layer_norm in blocks.3.ln1 (LayerNorm), forward of step 0, model.py:41:
eps 1e-05 against 0.001; error 4.8e-04 is 770 times the noise floor of 6.2e-07; inputs agree within 1.1e-07
```

## Use instead
Where scalar arguments differ, make them equal: that is the cause. Otherwise run the operator alone on
both devices with the recorded inputs (record with `--values tensors`), or run its module in float32 or
on the CPU for one step and compare again.

## Fix safety
No edit is made.

## References
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 2.8 and 4.2 (probabilistic
growth of rounding errors); jumar docs noise-floor; Ascend's PyTorch migration and training guide, accuracy chapter.
"""

from __future__ import annotations

import math

from jumar.base.findings import Finding, Json, Severity
from jumar.base.rules import Rule
from jumar.comparison.judge.outputs import MEASURED
from jumar.comparison.measure.distances import NOT_EQUAL
from jumar.comparison.measure.tolerance import MULTIPLES
from jumar.comparison.model.results import OperatorDiff
from jumar.comparison.model.words import location, multiple, number, place, tensor_json
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM301",
    name="first-divergence",
    summary="The first operator whose outputs differ while its inputs agree.",
    severity=Severity.ERROR,
    doc=__doc__,
)

OF_CHECKPOINTS = "parameter::"
"""In front of the names of a checkpoint's tensors."""
OF_PARAMETERS = "Look at how this parameter is converted (its axes, its name), and whether both are of one step."

DOUBTFUL = 4.0
"""Multiples of the tolerance below which a divergence is reported as likely, not certain."""


def find(found: Evidenced) -> list[Finding]:
    """Return the finding of the first divergence, if there is one."""
    diff = found.first
    if diff is None:
        return []
    times = diff.multiple
    doubtful = times is not None and times < DOUBTFUL and not diff.arguments
    return [
        RULE.finding(
            sentence(diff),
            where=location(diff),
            evidence=_evidence(diff),
            why="Everything that is computed with it differs because of it.",
            action=OF_PARAMETERS
            if diff.reference_name.startswith(OF_CHECKPOINTS)
            else _action(diff, has_tensors=any(t.evidence == "tensors" for t in diff.outputs)),
            confidence="likely" if doubtful or not (diff.reference_name and diff.target_name) else "certain",
        )
    ]


def sentence(diff: OperatorDiff) -> str:
    """Return the divergence in one sentence: operator, place, cause if visible, figures."""
    if diff.reference_name.startswith(OF_CHECKPOINTS):
        name = ".".join(filter(None, (diff.module_path, diff.reference_name.removeprefix(OF_CHECKPOINTS))))
        return f"{name} differs; {'; '.join(filter(None, (diff.note, _figures(diff))))}."
    parts = [f"{diff.name} in {place(diff)} diverges"]
    if diff.arguments:
        parts.append(f"called with {', '.join(map(str, diff.arguments))}")
    if diff.note:
        parts.append(diff.note)
    parts.append(_figures(diff))
    if diff.reference_name and diff.target_name and not diff.note:
        parts.append(f"inputs agree within {number(diff.inherited)}" if diff.inherited else "inputs are equal")
    return "; ".join(part for part in parts if part) + "."


def _figures(diff: OperatorDiff) -> str:
    if diff.error is None or diff.tolerance is None:
        return ""
    if math.isinf(diff.error):
        return NOT_EQUAL if any(t.evidence == "hashes" for t in diff.outputs) else "NaN or Inf on one side only"
    at_least = "at least " if diff.outputs and diff.outputs[0].evidence in {"statistics", "sketches"} else ""
    figure = f"error {at_least}{number(diff.error)}"
    if diff.tolerance == 0:
        return f"{figure}, where equal inputs must give equal outputs"
    if not (diff.reference_name and diff.target_name):
        explained = f", where the calls before account for {number(diff.tolerance)}"
        return figure + (explained if diff.error > diff.tolerance else "")
    if diff.error <= diff.tolerance:
        return f"{figure}, within the tolerance of {number(diff.tolerance)}"
    floor = diff.floor or diff.tolerance / MULTIPLES
    how = "measured " if diff.tolerance_origin == MEASURED else ""
    return f"{figure} is {multiple(diff.error / floor)} the {how}noise floor of {number(floor)}"


def _evidence(diff: OperatorDiff) -> dict[str, Json]:
    return {
        "error": _plain(diff.error),
        "tolerance": _plain(diff.tolerance),
        "tolerance_origin": diff.tolerance_origin,
        "times_tolerance": _plain(diff.multiple),
        "noise_floor": _plain(diff.floor),
        "times_noise_floor": _plain(diff.times_floor),
        "rounding": _plain(diff.rounding),
        "inherited_error": _plain(diff.inherited),
        "arguments": {a.name: [str(a.reference), str(a.target)] for a in diff.arguments},
        "outputs": [tensor_json(tensor) for tensor in diff.outputs],
        "inputs": [tensor_json(tensor) for tensor in diff.inputs],
    }


def _plain(value: float | None) -> Json:
    return value if value is None or abs(value) < float("inf") else str(value)


def _action(diff: OperatorDiff, *, has_tensors: bool) -> str:
    if diff.arguments:
        return f"Make {', '.join(a.name for a in diff.arguments)} equal in both runs and compare again."
    if not diff.target_name:
        return f"Find out why the target does not run {diff.reference_name} here, and compare again."
    if not diff.reference_name:
        return f"Find out where the target's {diff.target_name} comes from; the reference does not run it here."
    if any(tensor.nonfinite_differs for tensor in diff.outputs):
        return "Run this operator in float32 for one step and compare again; look for overflow in its inputs."
    if not has_tensors:
        return (
            "Record this step on both sides with --values tensors and compare again for the exact error and its place."
        )
    return "Run this operator alone on both devices with the recorded inputs, or in float32, and compare the result."
