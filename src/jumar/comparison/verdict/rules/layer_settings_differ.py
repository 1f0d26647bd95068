"""JM319 layer-settings-differ.

## What it does
Compares the settings that layers were made with: eps and momentum of norms, the form of GELU, probabilities of
dropout, padding, stride, dilation and groups, the axis of softmax, the reduction of losses, and the class.
Those of MindSpore and Keras are put in PyTorch's words first: `epsilon` is `eps`, `pad_mode="pad", padding=1` and
`padding="same"` are the padding that they come to, the `momentum` of batch norm is compared as PyTorch defines it
(the argument of MindSpore and of Keras is 1 minus that).

## Why it matters
A layer with another setting is the cheapest explanation of a difference. Some do not show in the first steps at
all: the momentum of batch norm shows in evaluation only.

## Example
```text
norm1 (LayerNorm): eps 1e-05 against 1e-07
```

## Use instead
Give the layer the same setting in both programs. Defaults differ between frameworks: write them down.

## Fix safety
No edit is made.

## References
MindSpore documentation, "Differences with PyTorch"; Keras documentation, "Layers API"; PyTorch documentation,
`torch.nn`.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted, listing
from jumar.comparison.model.correspondence import LayerDiff
from jumar.comparison.model.frameworks.layers import SHOWN_BY_VALUES
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM319",
    name="layer-settings-differ",
    summary="Layers of the two runs were made with different settings.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding: the layer in which the runs part first where it is one of them."""
    # What shows in every result is accused where results part only.
    diffs = [one for one in found.correspondence.layers if found.first is not None or one.name not in SHOWN_BY_VALUES]
    if not diffs:
        return []
    at = [diff for diff in diffs if _is_first(found, diff)]
    shown = [*at, *(diff for diff in diffs if diff not in at)]
    why = "The runs diverge first in this layer." if at else "The values that were compared need not show it."
    return [
        RULE.finding(
            f"Layers were made with other settings: {listing(map(str, shown), 4)}.",
            where=Location(module_path=shown[0].path),
            evidence={f"{diff.path}.{diff.name}": [str(diff.reference), str(diff.target)] for diff in diffs},
            why=why,
            action=f"Make {counted(len(diffs), 'setting')} equal in both programs and record again.",
            severity=Severity.ERROR if at else Severity.WARNING,
        )
    ]


def _is_first(found: Evidenced, diff: LayerDiff) -> bool:
    return found.first is not None and found.first.phase != "optimizer" and found.first.module_path == diff.path
