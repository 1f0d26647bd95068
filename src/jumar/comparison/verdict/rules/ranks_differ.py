"""JM314 ranks-differ.

## What it does
Compares the ranks of one run with each other: parameters before the step, gradients as the optimizer
reads them, parameters after it, and the collective operators that were run. Of a data-parallel run they
must be equal; the data must not. In a comparison of two recordings, only what the reference's ranks have
in common and the target's have not is reported.

## Why it matters
A dropped or partial all-reduce trains as many different models as there are ranks. Each rank's loss
looks healthy for a while. Equal data on all ranks wastes all but one of them.

## Example
```text
the gradients of 12 of 50 parameters differ between ranks 0 and 1, first fc2.weight by 0.83: they were not aggregated
```

## Use instead
Look for parameters that are not handed to DDP, `no_sync()` around the last backward pass, parameters
without gradient on some ranks, gradients that are changed after the all-reduce on one rank only. For
equal data: `DistributedSampler`. For other parameters: the same seed before the model is made, or a
broadcast.

## Fix safety
No edit is made.

## References
PyTorch documentation, "DistributedDataParallel"; Ascend's accuracy guide: several ranks differ, look at
seeds and gradient aggregation.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.correspondence import RankDiff
from jumar.comparison.model.words import number
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM314",
    name="ranks-differ",
    summary="Ranks of one run differ in something that must be equal on all of them.",
    severity=Severity.ERROR,
    doc=__doc__,
)

SHOWN = 4
KEPT = 50

_ACTIONS = {
    "parameters": "Set one seed on all ranks before the model is made, or broadcast its parameters, and record again.",
    "gradients": "Look for parameters outside of DDP, no_sync() around the last backward pass, and gradients changed "
    "after their aggregation.",
    "data": "Give each rank its own share of the data (DistributedSampler).",
    "collectives": "Find out why one rank skips them: all ranks must run the same collectives in one order.",
}


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each kind of difference, in the order of the causes."""
    return [
        RULE.finding(
            sentence(diff),
            where=Location(step=diff.step, rank=diff.ranks[1], phase=_PHASES.get(diff.kind)),
            evidence={
                "kind": diff.kind,
                "ranks": list(diff.ranks),
                "names": list(diff.names[:KEPT]),
                "error": diff.error,
                "num_equal": diff.num_equal,
            },
            why="From here on each rank trains a different model." if diff.kind != "data" else "",
            action=_ACTIONS[diff.kind],
            severity=Severity.WARNING if diff.kind == "data" else Severity.ERROR,
        )
        for diff in found.correspondence.ranks
    ]


_PHASES = {"parameters": "forward", "gradients": "optimizer", "data": "forward"}


def sentence(diff: RankDiff) -> str:
    """Return a difference between two ranks in one sentence."""
    first, second = diff.ranks
    whose = f"ranks {first} and {second} in step {diff.step}"
    names = ", ".join(diff.names[:SHOWN]) + (", …" if len(diff.names) > SHOWN else "")
    if diff.kind == "data":
        return f"The data of {whose} are equal ({names}): the ranks do the same work."
    if diff.kind == "collectives":
        return f"Collective operators are not run as often on {whose}: {names}."
    of_all = f"{len(diff.names)} of {counted(len(diff.names) + diff.num_equal, 'tensor')}"
    what = f"{of_all} differ between {whose}, by up to {number(diff.error)}: {names}"
    if diff.kind == "parameters":
        return f"Parameters: {what}."
    if not diff.reduced:
        return f"Gradients, as the optimizer reads them: {what}; no all-reduce was run in this step."
    how = "not aggregated over the ranks" if not diff.num_equal else "left out of the aggregation over the ranks"
    return f"Gradients, as the optimizer reads them: {what}; they were {how}."
