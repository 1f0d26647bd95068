"""JM313 optimizer-settings-differ.

## What it does
Compares the class and the hyperparameters of the optimizers step by step: learning rate, betas, eps,
weight decay, momentum. The first step at which one differs is named, with both values.

## Why it matters
The first loss agrees and the later ones drift apart: the usual picture of another epsilon, another
schedule or another default of a fused optimizer. No operator is wrong then.

## Example
```text
AdamW: eps 1e-08 against 1e-06 from step 0 on
```

## Use instead
Give the optimizer the same settings in both runs. A fused or vendor optimizer may have other defaults:
write them down.

## Fix safety
No edit is made.

## References
PyTorch documentation, `torch.optim`.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.walk.evidence import Evidenced
from jumar.recording.schema import split_source

RULE = Rule(
    code="JM313",
    name="optimizer-settings-differ",
    summary="The optimizers of the two runs have different hyperparameters.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for the first step at which a setting differs; an error when parameters then part."""
    diffs = found.correspondence.hyperparameters
    if not diffs:
        return []
    first = min(diff.step for diff in diffs)
    at = [diff for diff in diffs if diff.step == first]
    path, line = split_source(at[0].source)
    parts = found.first is not None and found.first.phase == "optimizer"
    return [
        RULE.finding(
            f"{at[0].optimizer} has different settings from step {first} on: {'; '.join(map(str, at))}"
            + (f"; {len(diffs) - len(at)} more differ later." if len(diffs) > len(at) else "."),
            where=Location(path=path, line=line, phase="optimizer", step=first, rank=at[0].rank),
            evidence={diff.name: [str(diff.reference), str(diff.target)] for diff in diffs},
            why="The parameters take different steps from here; no operator is wrong.",
            action=f"Make {', '.join(diff.name for diff in at)} equal in both runs and record again.",
            severity=Severity.ERROR if parts else Severity.WARNING,
        )
    ]
