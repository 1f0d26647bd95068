"""JM507 machine-busy.

## What it does
Reports candidates that could not be judged, because other programs used the processors while they were
measured: too few pairs of measurements were left undisturbed. Also those that a full disk kept from being built.

## Why it matters
On a busy machine an operator of several threads waits for cores that others hold, and looks many times
slower than it is. What is measured then is the other programs.

## Example
12 of 80 measurements could not be judged: 3 of 41 pairs were undisturbed and 15 are needed.

## Use instead
A machine that is left alone while it is tuned, with room on its disks. The next run takes up exactly what
was not judged.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, a busy machine. Linux `sched-stats`: time a thread was ready and did not run.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.tune.measure.worker.messages import NO_ROOM
from jumar.tune.rules import by_provider, num_candidates
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM507",
    name="machine-busy",
    summary="Candidates could not be judged because other programs used the machine.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for the whole run."""
    groups = by_provider(result, ("busy",))
    if not groups:
        return
    num_lost = sum(group.num_lost for group in groups)
    num_tried = num_candidates(result)
    has_room = not groups[0].detail.startswith(NO_ROOM)
    yield RULE.finding(
        f"{num_lost} of {counted(num_tried, 'measurement')} could not be judged, first on {groups[0].first_name}: "
        f"{groups[0].detail}.",
        evidence={"num_not_judged": num_lost, "num_tried": num_tried, "load_average": result.load_average},
        why="An operator that waits for busy cores looks many times slower than it is."
        if has_room
        else "There was no room to build these candidates, so their speed is unknown.",
        action=f"{'Tune again on a quiet machine' if has_room else 'Free space, then tune again'}; only what was not "
        "judged is measured again.",
    )
