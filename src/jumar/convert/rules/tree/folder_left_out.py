"""## What it does
Names folders of the tree that are neither converted nor copied because they hold no source of the
project: virtual environments, installed packages, outputs of earlier conversions. Version control and
caches are left out without a word; what `.gitignore` names is converted like everything else.

## Why it matters
A converted copy of an installed PyTorch would be of no use, and of a size to notice.

## Example
```
project/env/pyvenv.cfg
```

## Use instead
Create the environment anew beside the converted project.

## Fix safety
No fix.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM194",
    name="folder-left-out",
    summary="A folder of the tree was neither converted nor copied.",
    severity=Severity.INFO,
    doc=__doc__,
)


def note(path: str, reason: str) -> Finding:
    """Return the finding for one folder."""
    return RULE.finding(f"The folder was left out: {reason}.", where=Location(path=path))
