"""JM536 precision-over-budget.

## What it does
Reports that `--precision` found nothing within the error budget that is faster beyond doubt, and how near it came.

## Why it matters
The graph keeps its precision. Often the budget is missed by little, or one operator makes most of the error.

## Example
net: nothing in fewer bits is faster within an error of 0.001; the most exact that is faster has 0.0034.

## Use instead
A greater `--budget`, if the error can be borne; a `--metric` that measures what matters of the outputs.

## Fix safety
No edit is made.

## References
`docs/tune-precision.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Finding, Severity
from jumar.rules import Rule
from jumar.tune.outcome import TuneResult
from jumar.tune.precision.outcome import PrecisionOutcome

RULE = Rule(
    code="JM536",
    name="precision-over-budget",
    summary="No lower precision is faster within the error budget.",
    severity=Severity.INFO,
    doc=__doc__,
)


def findings(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph that keeps its precision."""
    for one in result.precisions:
        if one.chosen is not None or one.metric_failed:
            continue
        yield RULE.finding(
            f"{one.name}: {_what(one)}",
            evidence={"budget": one.budget, "num_points": len(one.points), "num_lost": len(one.lost)},
            why="The graph keeps its precision.",
            action="Allow a greater --budget if the error can be borne, or give a --metric of what matters.",
            severity=Severity.WARNING if one.failure else None,
        )


def _what(one: PrecisionOutcome) -> str:
    if one.failure:
        return f"its precision could not be examined: {one.failure}"
    nearest = one.most_exact()
    num_busy = sum(lost.status == "busy" for lost in one.lost)
    if nearest is None and (num_busy or one.stopped_by):
        why = f"other programs used the machine during {num_busy} of them" if num_busy else f"{one.stopped_by} ended it"
        num_tried = len(one.points) + len(one.lost)
        return f"its precision is not judged to the end: {num_tried} plans were tried, and {why}."
    if nearest is None:
        last = f", the last because {one.lost[-1].detail or one.lost[-1].status}" if one.lost else ""
        return f"nothing in fewer bits is faster here ({len(one.points)} points measured, {len(one.lost)} lost{last})."
    return (
        f"nothing in fewer bits is faster within an error of {one.budget:g}; the most exact that is faster has "
        f"{nearest.error:.2g}."
    )
