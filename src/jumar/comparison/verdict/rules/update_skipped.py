"""JM316 update-skipped.

## What it does
Names a step whose update GradScaler left out in one run only, and says whether the loss scale accounts for it: the
other run's gradients, multiplied by that scale, come near the end of the type (a warning; nothing is wrong), or
stay far below it, or the scale's history shows that a smaller one does not help (an error).

## Why it matters
From that step on the runs are one update apart, and every later difference is a consequence. Compared on, the Inf of
the overflow, the optimizer or the next loss would be blamed.

## Example
```text
GradScaler skipped the update of step 0 in the target only, at a scale of 2.1e+06: the other run's gradients come
up to 0.112, 2.35e+05 in that scale, near the 6.55e+04 at which the type ends
```

## Use instead
Start both runs with a scale that is not skipped (`GradScaler(init_scale=…)`), or from a checkpoint saved after the
scale has settled. Where the scale does not account for it, mend the operator that overflows.

## Fix safety
No edit is made.

## References
torch.amp.GradScaler.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import number
from jumar.comparison.walk.evidence import Evidenced
from jumar.comparison.walk.skipped_updates import SkippedUpdate

RULE = Rule(
    code="JM316",
    name="update-skipped",
    summary="GradScaler left out the update of a step in one run only.",
    severity=Severity.WARNING,
    doc=__doc__,
)


MAX_STEPS = 50
"""Steps of the scale's history in the evidence."""


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each rank: the first such step."""
    first: dict[int, SkippedUpdate] = {}
    for skip in found.skipped:
        first.setdefault(skip.rank, skip)
    return [_finding(skip) for skip in first.values()]


def _finding(skip: SkippedUpdate) -> Finding:
    scale = "a scale that was not recorded" if skip.scale is None else f"a scale of {number(skip.scale)}"
    why = "The runs are one update apart from there on; what differs later is a consequence."
    action = "Start both runs with a smaller init_scale, or from a checkpoint saved after the scale has settled."
    if not skip.benign:
        action = "Find the operator whose gradient overflows: run `jumar overflow` on that recording."
    return RULE.finding(
        f"GradScaler skipped the update of step {skip.step} in the {skip.side} only, at {scale}: {skip.reason}.",
        severity=Severity.WARNING if skip.benign else Severity.ERROR,
        where=Location(step=skip.step, rank=skip.rank),
        evidence={
            "side": skip.side,
            "loss_scale": skip.scale,
            "benign": skip.benign,
            "scales": [list(entry) for entry in skip.scales[:MAX_STEPS]],
        },
        why=why,
        action=action,
    )
