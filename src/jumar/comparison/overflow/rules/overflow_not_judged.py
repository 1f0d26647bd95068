"""JM335 overflow-not-judged.

## What it does
Says what could not be looked at: a recording without counts of NaN and Inf, regions that the observer could not
see, steps that were cut short. When nothing could be looked at it is an error.

## Why it matters
"Not looked at" is never "no overflow".

## Example
```text
no counts of NaN and Inf were recorded (--values none): nothing can be said
```

## Use instead
Record with `--values stats` or more, and with operators (`--level module,op`).

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.overflow.results import OverflowReport

RULE = Rule(
    code="JM335",
    name="overflow-not-judged",
    summary="Part of the run, or all of it, could not be looked at for overflows.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(report: OverflowReport) -> list[Finding]:
    """Return an error when nothing could be looked at, else a warning for what could not."""
    if not report.num_calls:
        why = "it has no step" if not report.steps else "it holds no counts of NaN and Inf"
        return [
            RULE.finding(
                f"Nothing can be said of {report.path}: {why}.",
                evidence={"steps": len(report.steps)},
                action="Record the run again with --values stats.",
                severity=Severity.ERROR,
            )
        ]
    if not report.notes:
        return []
    more = "; …" if len(report.notes) > 2 else ""
    return [
        RULE.finding(
            f"Not everything was looked at: {'; '.join(report.notes[:2])}{more}.",
            evidence={"notes": list(report.notes)},
            why="Values that were not looked at may be NaN or Inf.",
        )
    ]
