"""JM333 saturated-values.

## What it does
Names the first operator whose output stands at the end of its type (65504 in float16) although its inputs do
not, and whose output is used; also float16 outputs of exactly 51200 or 38400, which the vendor's guide calls
suspicious. On a chip that saturates (Ascend 910A, 310P) it is an error, elsewhere a warning.

## Why it matters
A chip that saturates makes no Inf: the loss stays finite and is wrong.

## Example
```text
aten::sum in head: inputs up to 900 give 6.55e+04, where float16 ends (the chip saturates)
```

## Use instead
Compute it in float32, or scale the inputs down. `INF_NAN_MODE_ENABLE` chooses Inf where the chip can do both.

## Fix safety
No edit is made.

## References
Ascend's overflow-collection guide: 65500, 38400 and 51200 in float16.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import located
from jumar.comparison.overflow.results import OverflowReport, Saturation
from jumar.comparison.overflow.words import place

RULE = Rule(
    code="JM333",
    name="saturated-values",
    summary="An output stops at the end of its type's range, or at a magnitude known from overflows.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(report: OverflowReport) -> list[Finding]:
    """Return the first saturated output that is used; a certain one before a suspicious one."""
    used = [item for item in report.saturations if item.used and not item.skipped]
    first = next((item for item in used if item.certain), used[0] if used else None)
    if first is None:
        return []
    saturates = " (the chip saturates)" if first.certain else ""
    return [
        RULE.finding(
            f"{place(first)}: {first.cause}{saturates}.",
            where=located(first, first.operator),
            evidence=_evidence(first, len(used)),
            why="A result that overflows becomes the greatest number of the type: the loss stays finite and is wrong."
            if first.certain
            else "Such a value is rarely a true result. It is usually an overflow that was cut off, or a clamp.",
            action="Run it in float32 or bfloat16, or scale its inputs down.",
            severity=Severity.ERROR if first.certain else Severity.WARNING,
            confidence="certain" if first.certain else "possible",
        )
    ]


def _evidence(item: Saturation, num_used: int) -> dict[str, str | float | int | bool]:
    return {
        "key": item.key,
        "tensor": item.tensor,
        "dtype": item.dtype,
        "value": item.value,
        "atomic": item.is_atomic,
        "num_saturated": num_used,
    }
