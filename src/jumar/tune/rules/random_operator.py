"""JM510 random-operator.

## What it does
Reports a graph in which an operator draws random numbers: dropout in training mode, `rand`, `multinomial`.

## Why it matters
No candidate can be compared with it: two correct implementations draw different numbers. It is not tuned and runs
as before.

## Example
net draws random numbers (aten.rand_like.default), so that no two runs can be compared; it is not tuned.

## Use instead
Hand the random numbers in as an input, or call `model.eval()` where the operator is a dropout.

## Fix safety
No edit is made.

## References
`torch.Tag.nondeterministic_seeded` in PyTorch's operator schemas.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.findings import Finding, Json, Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM510",
    name="random-operator",
    summary="A graph draws random numbers and is not tuned.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def finding(name: str, operators: Sequence[str]) -> Finding:
    """Return the finding for a graph called `name`, and the operators that draw."""
    drawing: list[Json] = list(operators)
    return RULE.finding(
        f"{name} draws random numbers ({', '.join(operators)}), so that no two runs can be compared; it is not tuned.",
        evidence={"operators": drawing},
        action="Hand the random numbers in as an input, or call model.eval() where the operator is a dropout.",
    )
