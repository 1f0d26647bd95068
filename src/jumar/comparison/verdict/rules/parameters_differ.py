"""JM303 parameters-differ.

## What it does
Compares parameters and buffers as the first common step reads them. A difference beyond the rounding
of their dtype is reported and ends the search.

Parameters that one side holds transposed are told by their shapes and statistics, square ones by their
values or their sketch.

## Why it matters
With different initial weights every result differs. Typical causes: the model is initialised on the device
(whose random numbers differ), another seed, or another checkpoint on one side.

## Example
```text
model = Net().to(device)        # initialised on the CPU: equal on both sides
with torch.device(device): Net()  # initialised on the device: other random numbers
```

## Use instead
Initialise on the CPU with a fixed seed, or save the weights of one run and load them in both.

## Fix safety
No edit is made.

## References
Ascend's PyTorch migration and training guide, accuracy chapter: load the same initial weights.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.words import number, tensor_json
from jumar.comparison.verdict.rules.inputs_differ import leaf_location
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM303",
    name="parameters-differ",
    summary="The runs start from different parameters or buffers, so their results cannot be compared.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for the parameters that differ."""
    leaves = [leaf for leaf in found.leaves if leaf.role != "data"]
    if not leaves or len(leaves) < len(found.leaves):
        return _transposed(found) if not found.leaves else []
    first = leaves[0]
    modules = list(dict.fromkeys(leaf.call.path for leaf in leaves))
    relation = f" ({found.correspondence.parameters})" if found.correspondence.parameters else ""
    late = " (the first common step; what happened before is not recorded on both sides)" if found.leaves_step else ""
    return [
        RULE.finding(
            f"{counted(len(leaves), 'parameter or buffer tensor')} already differ at the start of step "
            f"{found.leaves_step}{late}, first in {first.call.path or 'the root'} by {number(first.diff.error)}"
            f"{relation}.",
            where=leaf_location(first),
            evidence={"num_tensors": len(leaves), "modules": list(modules[:20]), "first": tensor_json(first.diff)},
            why="With different initial weights every result differs; the search ends here.",
            action="Initialise on the CPU with the same seed, or load one checkpoint in both runs, then record again.",
        )
    ]


def _transposed(found: Evidenced) -> list[Finding]:
    """Return a finding for parameters that one side holds in the transposed shape: a layout, no other values."""
    names = found.correspondence.transposed
    if not names:
        return []
    return [
        RULE.finding(
            f"{counted(len(names), 'parameter tensor')} of the target are transposed, first of {names[0]}: shapes are "
            "swapped and the statistics equal.",
            evidence={"parameters": list(names[:20])},
            why="The layout of a weight is part of a checkpoint's format; operators read it in this layout.",
            action="Check that the layer multiplies with the transposed weight on one side only.",
            severity=Severity.WARNING,
        )
    ]
