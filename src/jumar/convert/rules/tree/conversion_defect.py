"""## What it does
Reports a file that stayed as it was because Jumar itself failed on it: a rule raised an error, the
edits would not have parsed, or the operating system ended the process that converted it (usually for
memory). All other files are converted.

## Why it matters
It is a defect of Jumar, not of the file; nothing in the file was converted.

## Example
```
train.py: KeyError in rule JM101
```

## Use instead
Convert the file by hand or with the rule left out (`--disable JM101`), and report the defect.

## Fix safety
No fix.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM193",
    name="conversion-defect",
    summary="Jumar failed on a file, which stayed as it was.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def note(path: str, reason: str, trace: str = "") -> Finding:
    """Return the finding for one file."""
    return RULE.finding(
        f"The file stayed as it was: {reason}.",
        where=Location(path=path),
        evidence={"traceback": trace} if trace else {},
        action="Report this with the file, and convert it by hand or without the rule that failed.",
    )
