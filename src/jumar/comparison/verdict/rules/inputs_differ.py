"""JM302 inputs-differ.

## What it does
Compares every tensor that comes into a step from outside (the batch, targets, constants made outside
the model) before any operator is judged. A difference beyond the rounding of its dtype is reported
and ends the search.

How the data are related is said where it can be seen: the same rows in another order (whole tensors), the
same elements in another order (equal statistics), the batch of another step (a shuffled epoch).

## Why it matters
Operators that were given other numbers cannot be blamed for other results. Data order, augmentation,
seeds and worker counts are the usual causes of a "wrong" loss.

## Example
```text
reference: seed 0, target: seed 1: input.0 of aten::convolution in conv1 differs, relative L2 error 1.41
```

## Use instead
Set the same seeds, turn shuffling and random augmentation off (or load the same recorded batch) in
both runs, and record again.

## Fix safety
No edit is made.

## References
Ascend's PyTorch migration and training guide, accuracy chapter: fix randomness first.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.measure.leaves import Leaf
from jumar.comparison.model.words import number, tensor_json
from jumar.comparison.walk.evidence import Evidenced
from jumar.recording.schema import split_source

RULE = Rule(
    code="JM302",
    name="inputs-differ",
    summary="The data that the two runs were given differ, so their results cannot be compared.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for the data that differ."""
    leaves = [leaf for leaf in found.leaves if leaf.role == "data"]
    if not leaves:
        return []
    first = leaves[0]
    row = first.call.row
    seeds = [str(diff) for diff in found.settings if "seed" in diff.name.lower()]
    relation = found.correspondence.data
    generators = ", ".join(found.correspondence.generators)
    cause = "; ".join(
        filter(
            None,
            (
                relation or "other data or seed",
                f"seeds differ ({'; '.join(seeds)})" if seeds else "",
                f"the generators {generators} were in another state when the step began" if generators else "",
            ),
        )
    )
    return [
        RULE.finding(
            f"The inputs of step {found.leaves_step} differ, first {first.diff.name} of {row.name} in "
            f"{first.call.path or 'the main program'} {_by(first)}: {cause}.",
            where=leaf_location(first),
            evidence={
                "num_tensors": len(leaves),
                "first": tensor_json(first.diff),
                "seeds": list(seeds),
                "relation": relation,
            },
            why="Operators with different inputs give different results, so the search ends here.",
            action="Give both runs the same data order (seed, shuffling, number of workers), then record again."
            if relation
            else "Give both runs the same seed and data order, then record again.",
        )
    ]


def _by(leaf: Leaf) -> str:
    if leaf.diff.shape != leaf.diff.target_shape:
        return f"in shape, {list(leaf.diff.shape)} against {list(leaf.diff.target_shape)}"
    return f"by {number(leaf.diff.error)}"


def leaf_location(leaf: Leaf) -> Location:
    """Return where a leaf is first read."""
    row = leaf.call.row
    path, line = split_source(row.source)
    return Location(
        path=path,
        line=line,
        module_path=leaf.call.path,
        operator=row.name,
        phase=row.phase,
        step=row.step,
        rank=row.rank,
    )
