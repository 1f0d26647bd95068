"""JM334 nonfinite-at-start.

## What it does
Says that NaN or Inf came into the run from outside: in the data, in a parameter (a checkpoint, the initialisation)
or in a buffer, and that it reaches the loss, a gradient or a parameter. No operator is to blame.

## Why it matters
Looking for an operator is in vain when the batch or the checkpoint is broken.

## Example
```text
input.0 of aten::convolution in stem: 3 Inf elements come with the data and reach the loss
```

## Use instead
Filter the sample, repair the checkpoint, or record from an earlier step on to see which update broke it.

## Fix safety
No edit is made.

## References
Ascend's PyTorch migration and training guide, accuracy chapter: check inputs and weights first.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import located
from jumar.comparison.overflow.results import OverflowReport
from jumar.comparison.overflow.words import counts, evidence, place

RULE = Rule(
    code="JM334",
    name="nonfinite-at-start",
    summary="NaN or Inf came from outside: the data, a parameter or a buffer.",
    severity=Severity.ERROR,
    doc=__doc__,
)

ROLES = {"data": "the data", "parameter": "a parameter", "state": "a buffer or state"}


def find(report: OverflowReport) -> list[Finding]:
    """Return what came from outside, when it comes before any operator's own."""
    origin = report.first
    if origin is None or origin.kind not in ROLES:
        return []
    turned = f" {origin.turned_by} makes NaN of it." if origin.turned_by else ""
    return [
        RULE.finding(
            f"{counts(origin)} come with {ROLES[origin.kind]}: {origin.tensor} of {place(origin)}; they reach "
            f"{origin.reaches}.{turned}",
            where=located(origin, origin.operator),
            evidence=evidence(origin),
            why=f"No operator made them: {origin.cause}.",
            action=origin.action,
        )
    ]
