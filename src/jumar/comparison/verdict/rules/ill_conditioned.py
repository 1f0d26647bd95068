"""JM320 ill-conditioned-gradient.

## What it does
Lists the parameters whose gradients differ between the runs by a large part of their own norm, although
every operator that made them agrees: the sums they are made of cancel, so that what is left is rounding
on every device. Typical are the bias of a layer before a batch norm, the bias of the keys in attention,
and weights of normalisations at the start of a training.

## Why it matters
A table of gradients shows these as completely different, cosine near 0, and sends the search the wrong
way. Optimizers that divide by the gradient's size (Adam) turn the noise into full steps; the parameters
part without harm, because their gradient says that they have no influence.

## Example
```text
gradients of 2 parameters are noise: stem.0.bias differs by 140 % of its own norm, layer1.0.bias by 95 %;
their sums cancel, the operators that made them agree
```

## Use instead
Nothing needs to be done. Leave the bias out where a normalisation follows.

## Fix safety
No edit is made.

## References
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2 (sums that cancel).
"""

from __future__ import annotations

import math

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted, listing
from jumar.comparison.model.results import OperatorDiff
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM320",
    name="ill-conditioned-gradient",
    summary="Gradients that are rounding only differ between the runs; nothing is wrong with them.",
    severity=Severity.INFO,
    doc=__doc__,
)

LARGE = 0.1
"""Difference of a gradient, relative to its own norm, from which it is listed."""

APART = 20.0
"""Multiples of the median over all parameters that it must be: where all gradients differ, the run is coarse."""

SHOWN = 4


def find(found: Evidenced) -> list[Finding]:
    """Return the finding about such gradients, of the first step that has some before anything diverges."""
    if found.leaves or found.random is not None:
        return []
    last = found.first.step if found.first is not None else None
    steps: dict[int, list[OperatorDiff]] = {}
    for diff in found.operators.judged():
        if diff.kind == "parameter" and diff.status != "diverge" and (last is None or diff.step < last):
            steps.setdefault(diff.step, []).append(diff)
    for step, diffs in sorted(steps.items()):
        noisy = ill_conditioned(diffs)
        if noisy:
            return [_finding(step, noisy)]
    return []


def ill_conditioned(parameters: list[OperatorDiff]) -> list[tuple[float, OperatorDiff]]:
    """Return the parameters of one step whose gradient is noise, with its relative difference, the greatest first."""
    errors = sorted(error for diff in parameters if (error := _error(diff)) is not None)
    if not errors:
        return []
    median = errors[(len(errors) - 1) // 2]
    noisy = [(error, diff) for diff in parameters if (error := _error(diff)) is not None]
    return sorted(
        ((error, diff) for error, diff in noisy if error >= max(LARGE, APART * median)), key=lambda item: -item[0]
    )


def _error(diff: OperatorDiff) -> float | None:
    gradient = next((tensor for tensor in diff.inputs if tensor.name == "input.grad"), None)
    return None if gradient is None or gradient.error is None or math.isinf(gradient.error) else gradient.error


def _finding(step: int, noisy: list[tuple[float, OperatorDiff]]) -> Finding:
    shown = listing((f"{_name(diff)} differs by {100 * error:.0f} % of its own norm" for error, diff in noisy), SHOWN)
    first = noisy[0][1]
    return RULE.finding(
        f"The gradients of {counted(len(noisy), 'parameter')} are noise: {shown}; their sums cancel, and the "
        "operators that made them agree.",
        where=Location(module_path=first.module_path, phase="backward", step=step, rank=first.rank),
        evidence={"parameters": {_name(diff): error for error, diff in noisy}},
        why="Where the terms of a sum cancel, only rounding is left, on every device.",
        action="",
    )


def _name(diff: OperatorDiff) -> str:
    return ".".join(part for part in (diff.module_path, diff.reference_name) if part)
