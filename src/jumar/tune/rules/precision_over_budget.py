"""JM536 precision-over-budget.

## What it does
Reports that `--precision` found nothing within the error budget that is faster beyond doubt, and how near it came; or
that what it found was not confirmed by the last measurement, or that there was nothing to measure, and why.

## Why it matters
The graph keeps its precision. Often the budget is missed by little, or one operator makes most of the error.

## Example
net: nothing in fewer bits is faster within an error of 0.001; the most exact that is faster has 0.0034.

net: nothing was measured in fewer bits. The graph has no product or convolution, so that nothing is worth fewer bits.
net: openvino, 18 int8 is faster with an error of 0.0034 of 0.01, and was not confirmed: 3 of 40 pairs were undisturbed.

## Use instead
A greater `--budget`, if the error can be borne; a `--metric` that measures what matters of the outputs. Where the last
measurement is what is missing, a quiet machine and more `--time-budget`.

## Fix safety
No edit is made.

## References
`jumar docs tune-precision`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.precision.outcome import Point, PrecisionOutcome
from jumar.tune.search.subgraph.outcome import NOT_JUDGED

RULE = Rule(
    code="JM536",
    name="precision-over-budget",
    summary="No lower precision is faster within the error budget.",
    severity=Severity.INFO,
    doc=__doc__,
)

_AGAIN = "Tune again while nothing else uses the machine, with more --time-budget where that ended the search."


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph that keeps its precision."""
    for one in result.precisions:
        if one.chosen is not None or one.metric_failed:
            continue
        yield RULE.finding(
            f"{one.name}: {_what(one)}",
            evidence={"budget": one.budget, "num_points": len(one.points), "num_lost": len(one.lost)},
            why="The graph keeps its precision.",
            action=_action(one),
            severity=Severity.WARNING if one.failure else None,
        )


def _what(one: PrecisionOutcome) -> str:
    if one.failure:
        return f"its precision could not be examined: {one.failure}"
    if (point := _unconfirmed(one)) is not None:
        return (
            f"{point.name} is faster with an error of {point.error:.2g} of {one.budget:g}, and was not confirmed: "
            f"{_why_not(one, point)}."
        )
    if one.unmeasured:
        return f"nothing was measured in fewer bits. {one.unmeasured}"
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


def _action(one: PrecisionOutcome) -> str:
    if one.failure:
        return "Mend what it names and tune again; until then the graph is tuned in its own precision only."
    if one.unmeasured:
        return "Leave its precision as it is; a file for another graph must name operators of this one."
    nearest = one.most_exact()
    if nearest is None:
        return _AGAIN if one.is_open else "Leave its precision as it is: no budget makes it faster here."
    if not nearest.fits(one.budget):
        return "Allow a greater --budget if the error can be borne, or give a --metric of what matters."
    lost = one.lost_in_confirmation(nearest)
    if lost is None or lost.status in NOT_JUDGED:
        return _AGAIN
    return "Tune again with sample inputs like those that it will meet: it failed on others than it was found on."


def _unconfirmed(one: PrecisionOutcome) -> Point | None:
    """Return the most exact point that is faster, if it is within the budget: its last measurement is missing."""
    nearest = one.most_exact()
    return nearest if nearest is not None and nearest.fits(one.budget) else None


def _why_not(one: PrecisionOutcome, point: Point) -> str:
    lost = one.lost_in_confirmation(point)
    if lost is not None:
        return (lost.detail or lost.status).rstrip(".")
    return f"{one.stopped_by} ended the search before" if one.stopped_by else "it was not measured again"
