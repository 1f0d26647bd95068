"""JM328 causal-operators.

## What it does
Names the operators that open the gap between two runs' losses, by experiment: the script runs again with
these operators calculated on the CPU in another precision, everything else left as it is, and the gap
closes. Delta debugging makes the set as small as the runs allow.

## Why it matters
An operator that differs need not matter, and one that matters need not stand out in a table. A run in which
only this operator is calculated otherwise, and in which the losses meet, shows the cause.

## Example
```text
Running aten::addmm of blocks.3.fc1 in float32 on the CPU closes 97% of the loss gap of 0.0021
```

## Use instead
Keep these operators in a wider dtype (autocast's exceptions, the SoC's precision options), replace them, or
report them with the folder that `jumar repro` writes.

## Fix safety
No edit is made.

## References
A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE Transactions on Software
Engineering 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.bisect.results import Bisection

RULE = Rule(
    code="JM328",
    name="causal-operators",
    summary="Operators whose calculation in another precision closes the gap between the losses.",
    severity=Severity.ERROR,
    doc=__doc__,
)

CERTAIN = 0.9
"""Share of the gap from which the set is called the cause with certainty."""


def find(bisection: Bisection) -> Iterator[Finding]:
    """Yield one finding, unless no set of operators closes any of the gap."""
    if not bisection.units:
        return
    first = bisection.units[0]
    yield RULE.finding(
        bisection.headline,
        where=Location(module_path=first.module_path, operator=first.operator),
        evidence={
            "units": [str(unit) for unit in bisection.units],
            "closed": bisection.closed,
            "closed_by_all": bisection.closed_by_all,
            "gap_before": bisection.gap_before,
            "gap_after": bisection.gap_after,
            "num_runs": bisection.num_runs,
        },
        why="Nothing else was changed between the run with the gap and the run without it.",
        action="Record these operators with --values tensors, and write a case of the worst one with jumar repro.",
        confidence="certain" if bisection.closed >= CERTAIN and bisection.is_minimal else "likely",
    )
