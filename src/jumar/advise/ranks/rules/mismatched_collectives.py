"""JM442 mismatched-collectives.

## What it does
Compares which collectives the ranks of a named group call in each step, and names the first call that differs.

## Why it matters
Ranks that call different things wait for each other until the time limit ends the run, or they mix up their data.

## Example
```python
if loss > limit:  # differs between ranks
    dist.all_reduce(loss)
```

## Use instead
```python
dist.all_reduce(loss)  # on every rank, in the same order
```

## Fix safety
No edit is made.

## References
PyTorch: `TORCH_DISTRIBUTED_DEBUG=DETAIL` checks the same while the program runs.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.ranks.ranks import Ranks
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing

RULE = Rule(
    code="JM442",
    name="mismatched-collectives",
    summary="Ranks of a group do not call the same collectives.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(ranks: Ranks) -> Outcomes:
    """Yield one finding for each group, about its first step that differs."""
    matched = ranks.arrivals
    if matched is None:
        yield not_checked(RULE, "no two ranks have steps with collectives in common.")
        return
    if not any(group for one in ranks.collectives for group in one.groups):
        yield not_checked(RULE, "the profile does not name the groups of the collectives.")
        return
    for group in dict.fromkeys(one.group for one in matched.mismatches):
        own = [one for one in matched.mismatches if one.group == group]
        first = min(own, key=lambda one: one.step)
        told = "; ".join(
            f"{word} on {'ranks' if len(those) > 1 else 'rank'} {listing([str(rank) for rank in sorted(those)], 8)}"
            for word, those in sorted(first.called.items(), key=lambda item: -len(item[1]))
        )
        yield RULE.finding(
            f'The ranks of group "{group}" differ in step {first.step}, at call {first.place + 1}: {told}.',
            where=Location(step=first.step),
            evidence={"group": group, "steps_that_differ": len(own), "call": first.place + 1},
            why="A collective needs all ranks of its group: others wait, or take data of another call.",
            action="Let every rank of the group make the same calls in the same order.",
        )
