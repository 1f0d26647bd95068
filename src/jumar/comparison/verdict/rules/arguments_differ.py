"""JM308 arguments-differ.

## What it does
Reports operators that the two runs call with other scalar arguments (an epsilon, a scale, a mode),
though their outputs agree within the tolerance. Where the outputs differ too, it is the first divergence.

## Why it matters
The runs do not compute the same formula; on other data the difference may show.

## Example
```text
aten::native_layer_norm in ln1: eps 1e-05 against 1e-06
```

## Use instead
Make the arguments equal.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import location, place
from jumar.comparison.verdict.agreement import decisive_arguments
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM308",
    name="arguments-differ",
    summary="An operator is called with different scalar arguments, without a visible effect here.",
    severity=Severity.WARNING,
    doc=__doc__,
)

MAX_FINDINGS = 10


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for each place, in the order of execution."""
    if found.leaves:
        return []
    findings = []
    seen = set()
    for diff in found.operators.judged():
        arguments = decisive_arguments(found, diff)
        if diff.status not in {"agree", "inherited"} or not arguments:
            continue
        place_key = (diff.module_path, diff.phase, diff.name)
        if place_key not in seen:
            seen.add(place_key)
            findings.append(
                RULE.finding(
                    f"{diff.name} in {place(diff)} is called with {', '.join(map(str, arguments))}; "
                    "the outputs agree on this data.",
                    where=location(diff),
                    evidence={a.name: [str(a.reference), str(a.target)] for a in arguments},
                    action="Make the arguments equal.",
                )
            )
    return findings[:MAX_FINDINGS]
