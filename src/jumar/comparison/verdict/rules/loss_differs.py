"""JM305 loss-differs.

## What it does
Compares the losses of both runs step by step and reports the first step at which they part. The
tolerance of the first loss is 1024 epsilons of float32 (4 epsilons of a half type where the runs
calculate in one); it grows by a factor of 8 a step, because training amplifies rounding, up to 1 %.

## Why it matters
The loss is what the user sees. When it parts and an operator was named, this shows what the operator
costs; when it parts and none was named, the cause is in something that was not compared.

## Example
```text
losses part at step 1: 2.3026 against 2.4105 (4.5 %)
```

## Use instead
Look at the first divergence (JM301). If there is none, record whole steps with `--level module,op` and
look at what was not compared.

## Fix safety
No edit is made.

## References
Ascend's accuracy guide takes a mean loss error above 1 % as misaligned.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import number
from jumar.comparison.walk.evidence import Evidenced
from jumar.comparison.walk.losses import first_disagreement

RULE = Rule(
    code="JM305",
    name="loss-differs",
    summary="The losses of the two runs differ.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return the first step whose losses disagree, if there is one."""
    pair = first_disagreement(found.losses)
    if pair is None:
        return []
    drifts = any(drift.onset is not None and drift.onset.step <= pair.step for drift in found.drifts)
    explained = found.first is not None or found.leaves or found.random or drifts
    return [
        RULE.finding(
            f"The losses differ at step {pair.step}: {number(pair.reference, 6)} against {number(pair.target, 6)}"
            + (f", a relative difference of {number(pair.error)}" if pair.error is not None else "")
            + ("." if explained else ", and no compared operator explains it."),
            where=Location(step=pair.step, rank=pair.rank, operator="loss"),
            evidence={"step": pair.step, "relative_difference": pair.error, "tolerance": pair.tolerance},
            why="The trainings differ from this step on."
            if explained
            else "The cause is in something that was not recorded or not compared; see the notes on coverage.",
            action=""
            if explained
            else "Record whole steps with all phases at operator level on both sides, and compare again.",
        )
    ]
