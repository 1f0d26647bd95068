"""JM522 region-loses-at-borders.

## What it does
Reports blocks of a graph that another engine computes faster when they run alone, and that the plan nevertheless
leaves to the engine of the whole: handing tensors over at the borders (a call, conversions, two pools of threads)
costs more than the block gains.

## Why it matters
It is the evidence for not choosing what looks better block by block.

## Example
`shufflenet`: block 3 of 17 takes 210 us in `inductor` and 260 us in `openvino` alone; the plan of both engines
promised 4010 us and took 4420 us from end to end, `openvino` alone takes 4280 us.

## Use instead
Nothing: the plan that is faster from end to end was chosen.

## Fix safety
No edit is made.

## References
`jumar docs tune-subgraphs`, regions.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.subgraph.outcome import Cutting, GraphOutcome
from jumar.tune.search.subgraph.stitching import lost_at_borders

RULE = Rule(
    code="JM522",
    name="region-loses-at-borders",
    summary="A block that another engine computes faster alone is not given to it: its borders cost more.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph in which a block was locally faster elsewhere."""
    for graph in result.graphs:
        if graph.cutting is not None and (graph.plan is None or len(graph.plan.regions) < 2):
            yield from _of(graph, graph.cutting)


def _of(graph: GraphOutcome, cutting: Cutting) -> Iterator[Finding]:
    lost = lost_at_borders(cutting)
    if not lost:
        return
    place, block, engine, ratio = max(lost, key=lambda one: one[3])
    own = block.engines_us[cutting.own_engine]
    seen = "; ".join(
        f"a plan of {len(set(one.engines))} engines promised {one.promised_us:.4g} us and took {one.measured_us:.4g} us"
        for one in cutting.stitched
        if one.measured_us is not None
    )
    yield RULE.finding(
        f"{graph.name}: block {place + 1} of {len(cutting.blocks)} takes {block.engines_us[engine]:.4g} us in {engine} "
        f"and {own:.4g} us in {cutting.own_engine} alone; {seen or cutting.reason}; {cutting.best_whole} for the whole "
        f"takes {cutting.whole_us:.4g} us.",
        where=Location(module_path=graph.name),
        evidence={"num_blocks": len(cutting.blocks), "num_faster_alone": len(lost), "ratio": ratio,
                  "cutting": cutting.to_json()},
        why="What a block gains must pay for its borders, and is measured from end to end.",
    )  # fmt: skip
