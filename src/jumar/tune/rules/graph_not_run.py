"""JM524 graph-not-run.

## What it does
Reports a graph that was not tuned because it cannot be run on this machine by itself, or must not be tuned.

## Why it matters
It runs as it did before, and nothing was learnt of it.

## Example
`net piece 2` was not tuned: it draws random numbers (aten::rand).

## Use instead
What the reason says; the other graphs of the model are tuned all the same.

## Fix safety
No edit is made.

## References
`jumar docs tune-subgraphs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM524",
    name="graph-not-run",
    summary="A graph could not be run by itself or must not be tuned; it runs as before.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph that failed."""
    for graph in result.failed_graphs():
        yield RULE.finding(
            f"{graph.name} was not tuned: {graph.failure.rstrip('.')}.",
            where=Location(module_path=graph.name),
            evidence={"graph": str(graph.graph), "key": graph.graph.key},
            action="The model runs untuned there; mend the cause, then tune again.",
        )
