"""JM503 candidate-disagrees.

## What it does
Reports candidates whose outputs do not agree with the operator: another value, shape, dtype or stride,
NaN where there was none, or changed inputs.

## Why it matters
A fast wrong result is no result. Such a candidate is never accepted, whatever its speed; but a provider
that computes one operator wrongly is not to be trusted with a model either.

## Example
`inductor` disagreed on 1 of 40 candidates, first on head/_softmax_OPAT_0: its error is 0.02 of the
greatest value and may be 9.5e-07.

## Use instead
Report it to the provider's authors; `jumar tune --json` has the operator's shapes and the seed.

## Fix safety
No edit is made.

## References
`docs/guide-tune.md`, agreement.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Finding, Severity
from jumar.rules import Rule
from jumar.tune.outcome import TuneResult
from jumar.tune.rules.grouping import by_provider
from jumar.words import counted

RULE = Rule(
    code="JM503",
    name="candidate-disagrees",
    summary="A provider's outputs do not agree with the operator.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def findings(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each provider that disagreed."""
    for group in by_provider(result, ("disagrees",)):
        yield RULE.finding(
            f"`{group.provider}` disagreed on {group.num_lost} of {counted(group.num_tried, 'candidate')}, "
            f"first on {group.first_name}: {group.detail}.",
            where=group.where,
            evidence={"num_disagreeing": group.num_lost, "num_tried": group.num_tried},
            why="A candidate with other outputs is never accepted, whatever its speed.",
            action="Report it to the provider's authors; `--json` has shapes and values' scale.",
        )
