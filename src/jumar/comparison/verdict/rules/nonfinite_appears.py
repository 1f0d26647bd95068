"""JM309 nonfinite-appears.

## What it does
Names the first operator whose output has NaN or Inf elements in one run only, and losses that are not
finite in both runs. Infinities that both runs have (attention masks filled with -inf) are not reported.

## Why it matters
A NaN spreads to all weights within one step. In float16 it is mostly an overflow above 65504; Ascend 910A
saturates instead, so that there the values stay finite and wrong.

## Example
```text
aten::exp in blocks.4.attn: 12 elements are NaN or Inf in the target, none in the reference
```

## Use instead
`jumar overflow` on the run that has them: it tells what the operator made itself from what it was given, and
masks and skipped steps from overflows.

## Fix safety
No edit is made.

## References
Ascend's overflow-detection guide (saturation and INF/NaN modes).
"""

from __future__ import annotations

import math

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import location, place, tensor_json
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM309",
    name="nonfinite-appears",
    summary="NaN or Inf appears in one run only, or in the loss of both.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return the first operator with NaN or Inf on one side, or the first loss that is not finite on both."""
    diff = found.nonfinite
    if diff is not None and not found.leaves:
        tensor = next(t for t in diff.outputs if t.nonfinite_differs)
        return [
            RULE.finding(
                f"{diff.name} in {place(diff)}: {tensor.name} has {tensor.target_num_nonfinite} NaN or Inf elements in "
                f"the target and {tensor.num_nonfinite} in the reference.",
                where=location(diff),
                evidence=tensor_json(tensor),
                why="A NaN spreads to all weights within one step.",
                action=f"jumar overflow {found.target.path} shows where they come from and whether they are used.",
            )
        ]
    for pair in found.losses:
        if (
            pair.reference is not None
            and pair.target is not None
            and not (math.isfinite(pair.reference) or math.isfinite(pair.target))
        ):
            return [
                RULE.finding(
                    f"The loss of step {pair.step} is {pair.reference} in the reference, {pair.target} in the target.",
                    where=Location(step=pair.step, rank=pair.rank, operator="loss"),
                    evidence={"step": pair.step},
                    why="The runs agree, and both have failed.",
                    action=f"jumar overflow {found.reference.path} names the operator; the target is not at fault.",
                    severity=Severity.WARNING,
                )
            ]
    return []
