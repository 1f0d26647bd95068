"""JM318 drift-begins.

## What it does
Names the step at which two runs begin to drift apart, and what changed there, from the numbers that a recording holds
of every step: settings of the optimizers, generators, inputs, losses, gradients, states, parameters, buffers and
averaged copies. A decay or a learning rate that no setting shows is found in what the state and the parameters do.

## Why it matters
Few steps of a long run are recorded in detail. Where a change lies between them, the next one shows only that
everything differs.

## Example
```text
The runs drift apart from step 60 on: exp_avg_sq of AdamW was multiplied by 1.5 in the target before the update of
step 60
```

## Use instead
Look at what the scripts do at that step. Record the steps around it in detail on both sides: `--steps 59:62`.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM318",
    name="drift-begins",
    summary="The runs drift apart from a step on at which something changed.",
    severity=Severity.ERROR,
    doc=__doc__,
)

WHY = {
    "setting": "The updates differ from here on; no operator is wrong.",
    "calls": "The updates differ from here on; no operator is wrong.",
    "input": "The runs read other data from here on: another order, another seed, or another place in the data.",
    "gradient": "Inputs, parameters and settings agree up to here.",
    "state": "Gradients and settings agree up to here: the state was changed, or is calculated by another rule.",
    "parameter": "Gradients, states and settings agree up to here: the parameters are updated by another rule.",
    "buffer": "Parameters agree up to here.",
    "copy": "The parameters agree up to here: the average is taken otherwise.",
}


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each rank whose runs drift apart, the earliest step first; of equal ones the first."""
    began = sorted((drift.onset.step, drift.rank, drift.onset) for drift in found.drifts if drift.onset is not None)
    findings: list[Finding] = []
    told: set[str] = set()
    for step, rank, onset in began:
        if onset.sentence in told:
            continue
        told.add(onset.sentence)
        findings.append(
            RULE.finding(
                f"The runs drift apart from step {step} on: {onset.sentence}.",
                where=Location(step=step, rank=rank),
                evidence={"change": onset.change, "what": onset.what, **onset.evidence},
                why=WHY.get(onset.change, ""),
                action=f"Look at what both scripts do at step {step}, and record the steps around it in detail: "
                f"--steps {max(0, step - 1)}:{step + 2}.",
            )
        )
    return findings
