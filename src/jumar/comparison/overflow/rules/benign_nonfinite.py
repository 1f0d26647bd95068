"""JM331 benign-nonfinite.

## What it does
Lists where NaN or Inf is and does no harm: masks of -Inf that a softmax takes up, a logarithm of 0 that a `where`
leaves out, memory that is never read, gradients that overflow because of the loss scale alone in a step that the
scaler skips.

## Why it matters
Tools that stop at the first Inf name these, and the operator that is to blame is not found. They are listed so
that nobody has to wonder.

## Example
```text
18 operators give NaN or Inf that does no harm: aten::masked_fill in blocks.0.attn (taken up by aten::_softmax)
```

## Use instead
Nothing has to be changed.

## Fix safety
No edit is made.

## References
torch.amp.GradScaler: skipped steps halve the scale.
"""

from __future__ import annotations

from collections import Counter

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.words import located
from jumar.comparison.overflow.results import OverflowReport
from jumar.comparison.overflow.words import evidence, fate_words, place

RULE = Rule(
    code="JM331",
    name="benign-nonfinite",
    summary="NaN or Inf that does no harm: masks, skipped steps, values never read.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(report: OverflowReport) -> list[Finding]:
    """Return one finding for all that is harmless."""
    if not report.benign:
        return []
    first = report.benign[0]
    fates: Counter[str] = Counter(origin.fate for origin in report.benign)
    return [
        RULE.finding(
            f"{counted(report.num_benign, 'origin')} of NaN or Inf without harm, such as {place(first)}: "
            f"{first.cause} ({fate_words(first)}).",
            where=located(first, first.operator),
            evidence={"fates": dict(fates), "origins": [evidence(origin) for origin in report.benign[:20]]},
            why="They reach neither the loss nor a parameter.",
        )
    ]
