"""JM537 precision-overflow.

## What it does
Reports operators whose values a lower precision cannot hold: fp16 ends at 65504. They were seen on the sample inputs
while the graph ran in its own precision.

## Why it matters
In fp16 such an operator gives Inf, or on some accelerators a saturated number, and everything behind it is worthless.
An error that is not finite is never within a budget.

## Example
net: 3 operators make or read values that fp16 cannot hold, first mul_0 with 4.2e+07.

## Use instead
bf16, which has float32's range; or scale the values before the operator. In the written lists these operators keep
their precision.

## Fix safety
No edit is made.

## References
`jumar docs tune-precision`; IEEE 754 binary16.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM537",
    name="precision-overflow",
    summary="An operator's values are beyond what fp16 can hold.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
MAX_NAMES = 20


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph in which something overflows."""
    for one in result.precisions:
        if not one.overflows:
            continue
        first = one.overflows[0]
        num = len(one.overflows)
        who = "1 operator makes or reads" if num == 1 else f"{num} operators make or read"
        yield RULE.finding(
            f"{one.name}: {who} values that {first.precision} cannot hold, first {first.name} with "
            f"{first.greatest:.2g}.",
            evidence={
                "num_operators": num,
                "names": [overflow.name for overflow in one.overflows[:MAX_NAMES]],
                "greatest": max(overflow.greatest for overflow in one.overflows),
            },
            why="Everything behind an overflow is worthless.",
            action="Keep them in float32 or bf16, or scale the values before them.",
        )
