"""JM513 graph-break.

## What it does
Reports a model that decides by the values of its tensors what it computes (`if x.sum() > 0`, `.item()`), so that it
is several graphs with Python between them.

## Why it matters
Each piece is tuned by itself; nothing is fused or laid out across the breaks. `torch.compile(model,
backend="jumar")` breaks the model at the same places and finds the pieces' policies.

## Example
net is no single graph (Could not guard on data-dependent expression); its 3 pieces are tuned by themselves.

## Use instead
Write the choice with `torch.where`, or move it out of the model.

## Fix safety
No edit is made.

## References
PyTorch's manual, "Common graph breaks".
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.graph.rules import Observed

RULE = Rule(
    code="JM513",
    name="graph-break",
    summary="A model is no single graph; its pieces are tuned by themselves.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding for a model that comes in pieces."""
    if observed.break_reason:
        pieces = "piece is" if observed.num_pieces == 1 else "pieces are"
        yield RULE.finding(
            f"{observed.name} is no single graph ({observed.break_reason}); its {observed.num_pieces} {pieces} tuned "
            "alone.",
            evidence={"num_pieces": observed.num_pieces},
            action="Write the choice with torch.where, or move it out of the model.",
        )
