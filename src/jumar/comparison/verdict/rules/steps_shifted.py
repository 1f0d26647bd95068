"""JM315 steps-shifted.

## What it does
Says when the steps of two recordings do not correspond number by number: one run is ahead by some steps
(found by their losses, or given with `--offset`), or a step of one run has another number of backward
passes (gradient accumulation).

## Why it matters
Compared number by number, every tensor would differ. With the offset, the same steps meet; with other
micro-batches, the calls cannot be compared one by one, but the gradients and parameters at the end of
the step can.

## Example
```text
step n of the reference is step n+1 of the target: their losses agree so
```

## Use instead
Record the same steps with the same accumulation on both sides.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Json, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM315",
    name="steps-shifted",
    summary="Steps or micro-steps of the two recordings do not correspond one to one.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each kind of shift; ranks with the same one share it."""
    unique = {(shift.kind, shift.sentence): shift for shift in reversed(found.correspondence.shifts)}
    findings = []
    for shift in reversed(unique.values()):
        evidence: dict[str, Json] = {"kind": shift.kind, "offset": shift.offset}
        findings.append(
            RULE.finding(
                f"{shift.sentence[0].upper()}{shift.sentence[1:]}.", where=Location(rank=shift.rank), evidence=evidence
            )
        )
    return findings
