"""JM306 unmatched-operators.

## What it does
Counts the calls that only one run makes, by operator, after names of one calculation have been
unified and list operators taken apart. Views and copies are counted apart.

## Why it matters
Devices run some calculations as other operators (an attention kernel against its parts), which is no
error. But a call without a partner was not compared: that is not the same as agreeing. A difference
that arises in such calls is named as the first divergence.

## Example
```text
reference only: aten::bernoulli_.float ×4, aten::div_.Scalar ×4; target only: aten::native_dropout ×4
```

## Use instead
Nothing, if the operators are variants of one calculation. Otherwise find out why one run makes them.

## Fix safety
No edit is made.

## References
PyTorch documentation, "Core Aten IR" and the list of operators by back end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jumar.base.findings import Finding, Json, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted, listing
from jumar.comparison.model.results import UnmatchedCall
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM306",
    name="unmatched-operators",
    summary="Some calls are made by one run only and were not compared.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for all unmatched calls that calculate, and none for views and copies alone."""
    reference, target = _counted(found.unmatched_reference), _counted(found.unmatched_target)
    if not reference and not target:
        return []
    total = sum(reference.values()) + sum(target.values())
    sides = [("reference only", reference), ("target only", target)]
    shown = "; ".join(f"{side}: {_names(counts)}" for side, counts in sides if counts)
    layout = sum(call.layout_only for call in (*found.unmatched_reference, *found.unmatched_target))
    evidence: dict[str, Json] = {side.replace(" ", "_"): dict(counts) for side, counts in sides}
    return [
        RULE.finding(
            f"{counted(total, 'call')} without a partner were not compared ({shown}).",
            evidence={**evidence, "num_views_and_copies": layout},
            why="Calls that were not compared may differ. A difference in them would show in the calls that read them.",
        )
    ]


def _counted(calls: Sequence[UnmatchedCall]) -> Counter[str]:
    return Counter(call.name for call in calls if not call.layout_only)


def _names(counts: Counter[str]) -> str:
    return listing((f"{name} ×{count}" for name, count in counts.most_common()), 4)
