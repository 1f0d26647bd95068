"""JM317 runs-differ.

## What it does
Names what stands against an agreement of two recordings though no value that was compared diverges: calls, parameters
or tensors that only one side has, operators called with other arguments, optimizers with other settings or another
number of steps, results of other shapes, results that could not be compared, steps and ranks that one run did not make.

## Why it matters
Values can agree by chance: a clamp that no element reaches, an average of the weights that no loss reads, a parameter
that one checkpoint lacks. The runs do not calculate the same, and on other data or later it shows.

Calls that devices, versions and options of an implementation insert or replace are no difference: an attention kernel
against its parts, a fused optimizer, casts and views, constants, the scale of a loss, a sum with zero, a forward pass
that checkpointing runs again, a figure that only the log reads. The page on alignment has the whole list.

## Example
```text
Only the reference runs aten::mul_.Tensor ×29, aten::add_.Tensor ×29 (first in the main program, train.py:31).
```

## Use instead
Make both programs run the same calculation on the same steps and ranks, and record again. Where the difference is
meant, name it: `--steps`, `--ranks`, `--rename`.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.correspondence import ShortfallKind
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM317",
    name="runs-differ",
    summary="The runs differ in calls, parameters, arguments, shapes, steps or ranks, though no compared value does.",
    severity=Severity.ERROR,
    doc=__doc__,
)

ACTIONS: dict[ShortfallKind, str] = {
    "calls": "Make both programs run the same calculation, or tell which names belong together (--rename).",
    "inputs": "Give both runs the same data, and dump every call.",
    "arguments": "Make the arguments equal.",
    "settings": "Make the optimizers' settings equal.",
    "layers": "Give the layers the same settings.",
    "updates": "Record the same steps of both programs.",
    "shapes": "Give both runs the same data and model.",
    "values": "Record both sides with --values sketch or tensors.",
    "steps": "Record the same steps and ranks on both sides, or say which to compare (--steps, --ranks).",
}


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each thing that stands against an agreement."""
    return [
        RULE.finding(f"{one.sentence}.", evidence={"kind": one.kind}, action=ACTIONS[one.kind]) for one in found.against
    ]
