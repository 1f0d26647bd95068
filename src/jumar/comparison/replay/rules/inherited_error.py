"""JM326 inherited-error.

## What it does
Counts the operators that differ between two recordings although each computes its own inputs correctly on
both sides: what they read differed already. It names the first of them, and those that were called with
other scalar arguments, whose share of the difference is given apart.

## Why it matters
These operators need no attention. If every difference is inherited and none is an operator's own, the cause
lies in what the runs read (data, parameters, random numbers), in arguments, or in calls that only one run makes.

## Example
```text
412 operators differ only because their inputs do; the first is aten::native_layer_norm of blocks.1.ln1 (4.5e-04)
```

## Use instead
Look at the operators with an error of their own (JM325), or at the calls just before the first one named here.

## Fix safety
No edit is made.

## References
Ascend's PyTorch migration guide, accuracy chapter: comparing layer by layer with the reference's inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.words import located, number
from jumar.comparison.replay.results import Replayed
from jumar.comparison.replay.words import place

RULE = Rule(
    code="JM326",
    name="inherited-error",
    summary="Operators that differ only because their inputs or their arguments differ.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(replayed: Sequence[Replayed]) -> list[Finding]:
    """Return one finding for what is inherited, and one for each operator called with other arguments."""
    by_order = sorted(replayed, key=lambda row: (row.row.rank, row.row.step, row.row.seq))
    inherited = [row for row in by_order if row.verdict == "inherited"]
    found = [_by_arguments(row) for row in by_order if row.verdict == "other arguments"]
    if inherited:
        first = inherited[0]
        found.append(
            RULE.finding(
                f"{counted(len(inherited), 'operator')} differ only because their inputs do; the first is "
                f"{first.row.name} of {place(first.row)} ({number(first.inherited)}).",
                where=located(first.row, first.row.name),
                evidence={"num_inherited": len(inherited), "first": first.row.key, "inherited": first.inherited},
                action="Look at what the first of them reads: the call before it, data or parameters.",
            )
        )
    return found


def _by_arguments(row: Replayed) -> Finding:
    given = ", ".join(f"{name} {one!r} against {other!r}" for name, (one, other) in row.arguments.items())
    return RULE.finding(
        f"{row.row.name} of {place(row.row)} was called with {given}: that makes {number(row.by_arguments)} of its "
        f"difference, its inputs {number(row.inherited)}.",
        where=located(row.row, row.row.name),
        evidence={"key": row.row.key, "by_arguments": row.by_arguments, "inherited": row.inherited},
        action="Make the arguments equal in both runs and record again.",
        severity=Severity.ERROR,
    )
