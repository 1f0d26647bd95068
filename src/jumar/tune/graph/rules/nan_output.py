"""JM512 nan-output.

## What it does
Reports an output of a captured graph that holds NaN or Inf on the sample inputs.

## Why it matters
Candidates are compared where the numbers are finite. An output without a finite number cannot be compared at all,
and then the graph is not tuned.

## Example
output 0 of net holds NaN or Inf in 12 of 1000 places on the sample inputs.

## Use instead
Give sample inputs of the range the model is used with: real ones, from the factory (`return model, (x,)`).

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.graph.rules import Observed

RULE = Rule(
    code="JM512",
    name="nan-output",
    summary="An output of a graph holds NaN or Inf on the sample inputs.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding for each output with numbers that are not finite; an error where none is finite."""
    for place, output in enumerate(observed.outputs):
        if output is None or not (output.is_floating_point() or output.is_complex()):
            continue
        num_bad = int((~_is_finite(output)).sum())
        if not num_bad:
            continue
        where = f"in {num_bad} of {output.numel()} places" if num_bad < output.numel() else "everywhere"
        refused = "" if num_bad < output.numel() else ", so that nothing can be compared; it is not tuned"
        yield RULE.finding(
            f"output {place} of {observed.name} holds NaN or Inf {where} on the sample inputs{refused}.",
            evidence={"output": place, "num_not_finite": num_bad, "num_elements": output.numel()},
            action="Give sample inputs of the range the model is used with.",
            severity=Severity.ERROR if refused else None,
        )


def _is_finite(output: Any) -> Any:
    import torch

    return torch.isfinite(output)
