"""JM853 error-word.

A log names an error that nothing explains.

## What it does
Reports lines that speak of an error, a failure, a signal or an exit code other than 0, where the logs hold no known
error, no vendor's code and no traceback. Lines that differ in numbers only count as one.

## Why it matters
A run whose log names an error may have failed for a reason that Jumar does not know. Such a log is not called fine.

## Example
```
launcher: worker 3 failed with exit code 9
```

## Use instead
Read the lines around it. A line that is harmless needs nothing.

## Fix safety
No edit is made.

## References
`docs/guide-doctor.md`
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM853",
    name="error-word",
    summary="A log names an error that Jumar does not know.",
    severity=Severity.WARNING,
    doc=__doc__,
)
