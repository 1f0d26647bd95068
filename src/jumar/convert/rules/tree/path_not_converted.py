"""## What it does
Reports what is in a source tree and was not converted, or could not be copied: unreadable files and
folders, files too large to be sources, sources with binary content, sockets and pipes, files that
change while they are read, names that differ in case only.

## Why it matters
The rest of the tree is converted all the same, so that one bad file does not cost the work on
thousands; what is missing must then be known.

## Example
```
-rw------- 1 root root 1024 secrets.py
```

## Use instead
```
-rw-r--r-- 1 root root 1024 secrets.py
```

## Fix safety
No fix.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM190",
    name="path-not-converted",
    summary="A file or folder of the tree was not converted, or could not be copied.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def note(path: str, message: str, *, action: str = "", severity: Severity | None = None) -> Finding:
    """Return the finding for one path."""
    return RULE.finding(message, where=Location(path=path), action=action, severity=severity)
