"""JM327 not-replayable.

## What it does
Says how many of the selected operators could not be executed again, and why: their tensors were not
recorded, they draw random numbers that their outputs do not show, they are collectives, they return memory
as it is or no tensor at all, or no kernel takes them here.

## Why it matters
"Not replayed" is never "agrees": of these operators nothing is known.

## Example
```text
70 of 1,333 operators were not replayed: 58 return no tensor, 8 draw random numbers, 4 return uninitialised memory
```

## Use instead
Record their tensors (`--values tensors`, or `--tensors-of` for some operators); seed random numbers and
compare the two recordings instead; run collectives in a program of their own on all ranks.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.replay.results import Replayed

RULE = Rule(
    code="JM327",
    name="not-replayable",
    summary="Operators that could not be executed again.",
    severity=Severity.INFO,
    doc=__doc__,
)

_WORDS = {
    "not recorded": "lack recorded tensors or arguments",
    "random": "draw random numbers",
    "collective": "are collectives",
    "uninitialised": "return uninitialised memory",
    "no tensor result": "return no tensor",
    "unknown operator": "are not known to this PyTorch",
    "no kernel": "have no kernel here",
    "other": "are not calculations",
}

HARMLESS = frozenset({"no tensor result", "uninitialised"})
"""Causes that leave out nothing that was calculated."""


def find(replayed: Sequence[Replayed]) -> list[Finding]:
    """Return the finding, if any operator was not replayed; a warning when that is most of those that calculate."""
    left_out = Counter(row.cause for row in replayed if row.cause is not None)
    if not left_out:
        return []
    reasons = ", ".join(f"{count:,} {_WORDS[cause]}" for cause, count in left_out.most_common())
    missing = sum(count for cause, count in left_out.items() if cause not in HARMLESS)
    examples = {str(row.cause): row.note for row in reversed(replayed) if row.cause is not None}
    return [
        RULE.finding(
            f"{left_out.total():,} of {len(replayed):,} operators were not replayed: {reasons}.",
            evidence={"num_operators": len(replayed), "causes": {str(k): v for k, v in left_out.items()}, **examples},
            action="Record their tensors, or compare these operators between two recordings." if missing else "",
            severity=Severity.WARNING if missing > len(replayed) / 2 else Severity.INFO,
        )
    ]
