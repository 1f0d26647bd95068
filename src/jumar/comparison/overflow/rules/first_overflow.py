"""JM330 first-overflow.

## What it does
Names the first operator whose finite inputs give NaN or Inf that reaches the loss, a gradient or a parameter,
in the forward or the backward pass. Values are followed from memory to memory, so that an Inf which a softmax, a
`where` or a maximum takes up (an attention mask) is not blamed, and neither is an operator that only passes on
what it was given.

## Why it matters
One NaN spreads to all weights within one step, and the operator that shows it first in a log is rarely the one
that made it. Where the overflow is, is also where it is mended.

## Example
```text
aten::exp in blocks.4.attn, forward of step 0, model.py:41: exp of 104 leaves float32, whose greatest argument is 88.72
```

## Use instead
Follow the finding's action: an epsilon before a root, a logarithm or a division; the greatest element subtracted
before an exponential; float32 or bfloat16 for a sum that leaves float16.

## Fix safety
No edit is made.

## References
Ascend's overflow-collection guide (aicore_overflow, atomic_overflow, all).
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import located
from jumar.comparison.overflow.results import OverflowReport
from jumar.comparison.overflow.words import counts, evidence, place

RULE = Rule(
    code="JM330",
    name="first-overflow",
    summary="The first operator whose finite inputs give NaN or Inf that is used.",
    severity=Severity.ERROR,
    doc=__doc__,
)

KINDS = frozenset({"overflow", "invalid", "constant", "uninitialised", "unseen", "peer"})


def find(report: OverflowReport) -> list[Finding]:
    """Return the first origin made in the run itself, when it comes before anything from outside."""
    origin = report.first
    if origin is None or origin.kind not in KINDS:
        return []
    turned = f" {origin.turned_by} makes NaN of it." if origin.turned_by else ""
    return [
        RULE.finding(
            f"{place(origin)}: {origin.cause}; {counts(origin)} in {origin.tensor} reach {origin.reaches}.{turned}",
            where=located(origin, origin.operator),
            evidence={**evidence(origin), "num_more": len(report.origins) - 1},
            why="One NaN spreads to all weights within one step.",
            action=origin.action,
        )
    ]
