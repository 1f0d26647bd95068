"""JM502 candidate-lost.

## What it does
Reports candidates of a provider that raised, crashed, ran past their time or needed more memory than
they may have. Only the candidate was lost: the run went on. What an engine refuses in a sentence (an operator that it
has not) is a note.

## Why it matters
A provider that crashes here may crash in your program; and what it might have gained is unknown.

## Example
`inductor` was lost on 2 of 40 candidates (timeout): it ran past its limit of 120 s.

## Use instead
Nothing, if the operator does not matter. Otherwise mend the cause in the message (a compiler that is
missing a library, a machine short of memory) and tune with `REPEAT_TUNE=True`.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, limits of a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.tune.rules import by_provider
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM502",
    name="candidate-lost",
    summary="Candidates of a provider failed, crashed, hung or needed too much memory.",
    severity=Severity.WARNING,
    doc=__doc__,
)
LOST = ("failed", "memory", "timeout", "died")


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each provider and way of being lost."""
    for group in by_provider(result, LOST):
        of_all = f"{group.num_lost} of {counted(group.num_tried, 'candidate')}"
        detail = group.detail.removesuffix(".")
        if group.is_refusal:
            yield RULE.finding(
                f"`{group.provider}` does not take {of_all}, first of {group.first_name}: {detail}.",
                where=group.where,
                severity=Severity.INFO,
                evidence={"num_lost": group.num_lost, "num_tried": group.num_tried, "status": "refused"},
                why="What one provider does not take, the others are tried on.",
            )
            continue
        yield RULE.finding(
            f"`{group.provider}` was lost on {of_all} ({group.status}), first on {group.first_name}: {detail}.",
            where=group.where,
            evidence={"num_lost": group.num_lost, "num_tried": group.num_tried, "status": group.status},
            why="Each candidate has a process of its own, so the others are not touched.",
            action="Mend the cause if the operator matters, then tune again with REPEAT_TUNE=True.",
        )
