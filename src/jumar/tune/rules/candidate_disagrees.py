"""JM503 candidate-disagrees.

## What it does
Reports candidates whose outputs do not agree with the operator or graph: another value, shape, dtype or stride,
NaN where there was none, or changed inputs.

## Why it matters
A fast wrong result is no result. Such a candidate is never accepted, whatever its speed; the others are chosen from.

Not each of them is a fault. Another layout or engine adds long sums in another order, and an error of some times
PyTorch's own is where the gate draws its line. In a training step such a difference decides, where an activation is as
good as zero, whether a ReLU lets its gradient through: `channels_last` and compiled steps disagree there now and then.
An error near the greatest value itself, another shape, NaN or changed inputs is a fault of the engine that computes it.

## Example
`inductor` disagreed on 1 of 40 candidates, first on head/_softmax_OPAT_0: its error is 0.02 of the
greatest value and may be 9.5e-07.

## Use instead
Nothing: it was left out. A fault is worth a report to those who compute it: PyTorch for `eager`, `inductor`,
`channels_last` and `contiguous`, Jumar for `kernels`, else the engine's authors. `jumar tune --json` has the operator's
shapes and the scale of its values.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, agreement.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.tune.rules import by_provider
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM503",
    name="candidate-disagrees",
    summary="A provider's outputs do not agree with the operator.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each provider that disagreed."""
    for group in by_provider(result, ("disagrees",)):
        yield RULE.finding(
            f"`{group.provider}` disagreed on {group.num_lost} of {counted(group.num_tried, 'candidate')}, "
            f"first on {group.first_name}: {group.detail}.",
            where=group.where,
            evidence={"num_disagreeing": group.num_lost, "num_tried": group.num_tried},
            why="A candidate with other outputs is never accepted, whatever its speed.",
            action="Nothing needs to be done, it was left out; `jumar rule JM503` says when it is a fault to report.",
        )
