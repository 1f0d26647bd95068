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

from jumar.accuracy.evidence import Evidenced
from jumar.findings import Finding, Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM310",
    name="not-comparable",
    summary="Part of the recordings, or all, could not be compared.",
    severity=Severity.WARNING,
    doc=__doc__,
)

FOREIGN = 2.0
"""Calls without a partner for each pair from which two recordings are taken to be of different programs."""


def reason(found: Evidenced) -> str:
    """Return why nothing could be compared, or an empty string."""
    if found.correspondence.ranks_only:
        return "" if found.steps else "the ranks have no step in common"
    if not found.steps and not found.kinds and (ranks := _other_ranks(found)):
        return ranks
    if not found.steps:
        return f"the recordings have no {'level in common (operators or modules)' if found.kinds else 'step in common'}"
    compared = sum(found.counts[status] for status in ("agree", "inherited", "diverge", "random"))
    reasons = (
        *(
            (recording.info.values == "none", f"the {side} holds no values (recorded with --values none)")
            for side, recording in (("reference", found.reference), ("target", found.target))
        ),
        (
            (found.reference.info.values == "hash") != (found.target.info.values == "hash"),
            "one recording holds hashes only, the other one none",
        ),
        (
            found.num_unmatched > FOREIGN * found.counts.total(),
            f"{found.num_unmatched:,} calls have no partner and {found.counts.total():,} have one, "
            "so these are not runs of one program",
        ),
        (not compared and not found.leaves, "the recordings hold no values to compare"),
    )
    return next((words for holds, words in reasons if holds), "")


def _other_ranks(found: Evidenced) -> str:
    mine, theirs = sorted(found.reference.ranks), sorted(found.target.ranks)
    if not mine or not theirs or set(mine) & set(theirs):
        return ""
    return f"the recordings have no rank in common (reference {_listed(mine)}, target {_listed(theirs)})"


def _listed(ranks: list[int]) -> str:
    return f"{', '.join(map(str, ranks[:4]))}{', …' if len(ranks) > 4 else ''}"


def find(found: Evidenced) -> list[Finding]:
    """Return an error when nothing could be compared."""
    why = reason(found)
    if not why:
        return []
    return [
        RULE.finding(
            f"Nothing could be compared: {why}.",
            evidence={"reference": str(found.reference.path), "target": str(found.target.path)},
            action=_action(found, why),
            severity=Severity.ERROR,
        )
    ]


def _action(found: Evidenced, why: str) -> str:
    if why and why == _other_ranks(found):
        pair = f"{min(found.reference.ranks)}:{min(found.target.ranks)}"
        return f"Say which ranks belong together (--ranks {pair}), or record the same rank on both sides."
    return "Record the same program and steps on both sides with --values stats or tensors."


def find_gaps(found: Evidenced) -> list[Finding]:
    """Return one warning for what was left out."""
    if not found.notes:
        return []
    return [
        RULE.finding(
            f"Not everything was compared: {'; '.join(found.notes[:3])}{'; …' if len(found.notes) > 3 else ''}.",
            evidence={"notes": list(found.notes)},
            why="Not compared is not the same as agreeing.",
        )
    ]
