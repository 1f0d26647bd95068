"""JM523 batch-split.

## What it does
Reports a graph that is computed faster with its batch cut into pieces (one after the other, or several at once), or
whose batch does not come apart, with the reason.

## Why it matters
The values of a smaller batch stay in the processor's caches; and a batch that is cut can use the cores for different
rows instead of sharing out each operator.

## Example
`shufflenet` is faster with its batch of 8 cut into 1+1+1+1+1+1+1+1.

## Use instead
The plan in the bank; or the smaller batch itself, where latency counts.

## Fix safety
No edit is made: the pieces are put together again, and outputs are the same.

## References
`jumar docs tune-subgraphs`, the batch. The vendor's `nonhomo_split`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM523",
    name="batch-split",
    summary="A graph is faster with its batch cut into pieces, or its batch does not come apart.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph whose plan cuts the batch, and one for each that cannot be cut."""
    for graph in result.graphs:
        where = Location(module_path=graph.name)
        if graph.plan is not None and graph.plan.batch:
            sizes = "+".join(map(str, graph.plan.batch))
            at_once = f", {graph.plan.streams} at once" if graph.plan.streams > 1 else ""
            yield RULE.finding(
                f"{graph.name} is faster with its batch of {sum(graph.plan.batch)} cut into {sizes}{at_once}.",
                where=where,
                evidence={"batch": list(graph.plan.batch), "streams": graph.plan.streams},
            )
        elif graph.not_cut:
            yield RULE.finding(
                f"{graph.name} is not cut along its batch: {next(iter(graph.not_cut.values()))}",
                where=where,
                evidence={"not_cut": dict(graph.not_cut)},
            )
