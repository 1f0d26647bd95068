"""JM511 not-deterministic.

## What it does
Reports a model of which two runs on the same inputs differ, or whose captured graph gives other outputs than the
model itself.

## Why it matters
A candidate is accepted only when it computes what the model computes. Where that changes from run to run, or where
the capture missed something (a counter, the time, a cache), nothing can be compared. It is not tuned and runs as
before.

## Example
the model and its captured graph of net differ by 0.31 of the greatest value; it is not tuned.

## Use instead
Keep state out of `forward`: hand it in as an input and return the new one.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, the gate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.graph.rules import Observed

RULE = Rule(
    code="JM511",
    name="not-deterministic",
    summary="Runs of a model on the same inputs differ, so that it is not tuned.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding where two runs differ."""
    if observed.between:
        finite = math.isfinite(observed.difference)
        how = f"by {observed.difference:.2g} of the greatest value" if finite else "in shape, or in where they are NaN"
        yield RULE.finding(
            f"{observed.between} differ {how} on the same inputs ({observed.name}); it is not tuned.",
            evidence={"difference": observed.difference if finite else None},
            action="Keep state and random numbers out of forward: hand them in as inputs.",
        )
