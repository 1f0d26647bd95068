"""JM521 graph-not-faster.

## What it does
Reports a graph for which nothing that was tried is faster than the better of eager and TorchInductor's default,
beyond doubt. The model is left as it was. What was tried is remembered, so that it is not tried again for nothing.

## Why it matters
It is good to know that nothing is left to gain here, and what was looked at.

## Example
`bert`: none of 14 plans is faster by 2 % or more than `inductor`; the best, `openvino`, came to +1.1 %.

## Use instead
Another number of threads, a larger batch, or fewer bits (`--precision auto --budget 1e-2`).

## Fix safety
No edit is made.

## References
`jumar docs tune-subgraphs`. The vendor's `repo_unsatisfied_num`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.subgraph.outcome import GraphOutcome

RULE = Rule(
    code="JM521",
    name="graph-not-faster",
    summary="No plan computes a graph faster beyond doubt; it is left as it was.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph that was searched to the end without a plan."""
    for graph in result.graphs:
        if graph.plan is not None or graph.failure or graph.is_open:
            continue
        baseline = graph.instead_of if graph.baseline is None else f"`{graph.baseline}`"
        found = "Estimated:" if result.machine.is_estimate else "Measured:"
        what = "The bank knows" if graph.from_bank else found
        least = f"{result.min_gain * 100:g} %"
        num = len({str(one.plan) for one in graph.attempts if one.outcome.gain is not None})
        yield RULE.finding(
            f"{graph.name} is left as it was. {what} nothing is faster than {baseline} by {least} or more"
            f"{'' if graph.from_bank else f' among {num} plans{_best(graph)}'}.",
            where=Location(module_path=graph.name),
            evidence={"num_measured": num, "key": graph.graph.key, "notes": list(graph.notes)},
            action="Tune again with REPEAT_TUNE=True after a change of the machine or its engines.",
        )


def _best(graph: GraphOutcome) -> str:
    """Return what came closest, in the measurement that counts most."""
    last = [one for one in graph.attempts if one.against == graph.baseline and one.outcome.gain is not None]
    final = [one for one in last if one.stage in {"confirmation", "model"}] or last
    if not final:
        return ""
    best = max(final, key=lambda one: one.outcome.gain.ratio if one.outcome.gain is not None else 0.0)
    return f"; the closest was `{best.plan}`, {best.outcome.gain}"
