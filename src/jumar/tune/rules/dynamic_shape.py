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
`docs/guide-tune.md`, inputs. The vendor's tool takes static shapes or enumerated gears, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.findings import Finding, Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM514",
    name="dynamic-shape",
    summary="A model for changing sizes was captured for the sizes that were asked for.",
    severity=Severity.INFO,
    doc=__doc__,
)


def finding(name: str, dimensions: Sequence[str], gear: str) -> Finding:
    """Return the finding: which dimensions change (`x: dimension 0`), and the sizes captured."""
    return RULE.finding(
        f"{name} takes changing sizes ({', '.join(dimensions)}); it is tuned for {gear}.",
        evidence={"dimensions": list(dimensions), "gear": gear},
        action='Name every size that will be used: --input-shape "x:1,3,224,224;8,3,224,224".',
    )
