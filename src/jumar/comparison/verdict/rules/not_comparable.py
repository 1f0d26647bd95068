"""JM310 not-comparable.

## What it does
Says what the comparison could not cover: steps, ranks or values that only one recording has, a
recording cut short, regions the observer could not see. When nothing is left to compare it is an error.

## Why it matters
"Not compared" is never "agrees". A verdict holds for what was compared, and this says what that was.

## Example
```text
target: rank 0 did not end: the run was killed after step 4
```

## Use instead
Record the same steps, ranks, levels and values on both sides.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.walk.evidence import Evidenced, incomparable, other_ranks

RULE = Rule(
    code="JM310",
    name="not-comparable",
    summary="Part of the recordings, or all, could not be compared.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(found: Evidenced) -> Iterator[Finding]:
    """Yield an error when nothing could be compared, and a warning for what was left out."""
    why = incomparable(found)
    if why:
        yield RULE.finding(
            f"Nothing could be compared: {why}.",
            evidence={"reference": str(found.reference.path), "target": str(found.target.path)},
            action=_action(found, why),
            severity=Severity.ERROR,
        )
    if found.notes:
        yield RULE.finding(
            f"Not everything was compared: {'; '.join(found.notes[:3])}{'; …' if len(found.notes) > 3 else ''}.",
            evidence={"notes": list(found.notes)},
            why="What was not compared may differ.",
        )


def _action(found: Evidenced, why: str) -> str:
    if why and why == other_ranks(found):
        pair = f"{min(found.reference.ranks)}:{min(found.target.ranks)}"
        return f"Say which ranks belong together (--ranks {pair}), or record the same rank on both sides."
    return "Record the same program and steps on both sides with --values stats or tensors."
