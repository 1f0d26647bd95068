"""JM520 faster-plan.

## What it does
Reports a graph for which a plan was found (in this run, or before in the bank) that computes the same and is faster
than eager and than TorchInductor's default on the machine that was measured: which engine, with which settings, how
many threads, how the batch is cut, and the interval of the gain.

## Why it matters
The model is slower than it has to be there, by at least the interval's lower bound.

## Example
`resnet50` is faster under the plan `openvino`: 76500 → 38100 us, +100.8 % (95 % interval +98.1 % to +103.2 %).

## Use instead
`torch.compile(model, backend="jumar")`, which finds the plan in the bank, or `jumar tune MODEL --output FILE.jumar`
(the way for an ONNX file); for a script `jumar run --tuned SCRIPT`. These run on the CPU: a plan for an NPU is taken up
by hand, from what `jumar bank show KEY --json` has of it.

## Fix safety
No edit is made: the bank holds the plan.

## References
`jumar docs tune-subgraphs`. The vendor's `repo_modified_subgraphs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult, improvement_percent_of

RULE = Rule(
    code="JM520",
    name="faster-plan",
    summary="A plan computes a whole graph faster on the measured machine, with the same results.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph with a plan."""
    for graph in result.graphs:
        if graph.plan is None or graph.gain is None:
            continue
        known = " (from the bank)" if graph.from_bank else ""
        yield RULE.finding(
            f"{graph.name} is faster under the plan `{graph.plan}`{known}: {graph.gain}.",
            where=Location(module_path=graph.name),
            evidence={
                **graph.gain.to_json(),
                "improvement_percent": improvement_percent_of(graph.gain),
                "against": graph.instead_of,
                "num_tried": len(graph.tried()),
                "notes": list(graph.notes),
                "key": graph.graph.key,
                "machine": str(result.machine),
            },
            why=f"{'Estimated' if result.machine.is_estimate else 'Measured'} from end to end "
            f"{'for' if result.machine.is_estimate else 'on'} {result.machine}; it says nothing about another device.",
            action=_action(result, graph.graph.key),
        )


def _action(result: TuneResult, key: str) -> str:
    """Say how the plan is used, for what was tuned."""
    if result.machine.device != "cpu":
        return (
            f"Take it up in the program by hand: `jumar bank show {key[:12]} --json` has it operator by operator. What "
            "runs by the bank runs on the CPU."
        )
    if not result.is_offline:
        return f"Run it by the bank: jumar run --tuned {result.recording}."
    if result.recording.endswith(".onnx"):
        return f"Write it with its weights: jumar tune {result.recording} --job-type 1 --output FILE.jumar."
    return 'Run it with torch.compile(model, backend="jumar").'
