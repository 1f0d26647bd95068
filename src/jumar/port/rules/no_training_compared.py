"""No training step was compared.

## What it does
Reports that the two runs have no loss in common that could be compared, or no step.

## Why it matters
"Trains as on the reference" can be said only of a loss and a step that both runs have. The loss is the tensor that
`.backward()` is called on. A script that only evaluates has none, nor has one that ends before its first step.

## Example
`eval.py` runs a model in inference; its operators agree, and no loss was seen.

## Use instead
Give the script arguments that make it train, or more steps (`--steps`). For a script that only evaluates, rely on
the operators that were compared.

## Fix safety
No edit is made.

## References
`jumar docs guide-port`, the verdict.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM908",
    name="no-training-compared",
    summary="No training step was compared: the runs have no loss, or no step, in common.",
    severity=Severity.WARNING,
    doc=__doc__,
)
