"""A run completed fewer steps than were asked for.

## What it does
Reports that the script ended by itself before the number of training steps that `--steps` asks for.

## Why it matters
What did not run was not compared. A script that ends before its first optimizer step shows nothing
about the backward pass or the optimizer.

## Example
`train.py` called `sys.exit(0)` after 1 of 3 steps because `--epochs 1` holds one batch.

## Use instead
Give the script arguments that make it train for at least that many steps, or ask for fewer steps.

## Fix safety
No edit is made.

## References
`jumar port --help`
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM903",
    name="few-steps",
    summary="A run completed fewer training steps than were asked for.",
    severity=Severity.WARNING,
    doc=__doc__,
)
