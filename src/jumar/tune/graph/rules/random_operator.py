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

from collections.abc import Iterator

from jumar.base.findings import Finding, Json, Severity
from jumar.base.rules import Rule
from jumar.tune.graph.rules import Observed

RULE = Rule(
    code="JM510",
    name="random-operator",
    summary="A graph draws random numbers and is not tuned.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding that names the operators that draw."""
    if observed.drawing:
        drawing: list[Json] = list(observed.drawing)
        yield RULE.finding(
            f"{observed.name} draws random numbers ({', '.join(observed.drawing)}), so that no two runs can be "
            "compared; it is not tuned.",
            evidence={"operators": drawing},
            action="Hand the random numbers in as an input, or call model.eval() where the operator is a dropout.",
        )
