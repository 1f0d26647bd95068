"""JM514 dynamic-shape.

## What it does
Says that a model exported for changing sizes was captured for the sizes that were asked for (gears).

## Why it matters
Policies hold for the sizes they were measured with. Another size is another graph: the bank has nothing for it but
the nearest one, from which tuning starts.

## Example
model.pt2 takes changing sizes (x: dimension 0); it is tuned for 1x3x224x224.

## Use instead
Name every size that will be used: `--input-shape "x:1,3,224,224;8,3,224,224"`.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, inputs. The vendor's tool takes static shapes or enumerated gears, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.graph.rules import Observed

RULE = Rule(
    code="JM514",
    name="dynamic-shape",
    summary="A model for changing sizes was captured for the sizes that were asked for.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding that names the dimensions that change and the sizes that were captured."""
    if observed.changing:
        yield RULE.finding(
            f"{observed.name} takes changing sizes ({', '.join(observed.changing)}); it is tuned for {observed.gear}.",
            evidence={"dimensions": list(observed.changing), "gear": observed.gear},
            action='Name every size that will be used: --input-shape "x:1,3,224,224;8,3,224,224".',
        )
