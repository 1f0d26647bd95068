"""## What it does
Reports symbolic links of a source tree. They are copied as links, never followed: links that lead out
of the tree, absolute links back to the originals, links that lead nowhere or to themselves each have
a finding, all others are summed up in one.

## Why it matters
A copy of a link that leaves the tree, or names its target from the root, still leads to code that was
not converted.

## Example
```
utils.py -> /home/me/shared/utils.py
```

## Use instead
```
utils.py -> ../shared/utils.py
```

## Fix safety
No fix: what a link should lead to is the owner's to say.

## References
- jumar docs guide-convert
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM191",
    name="symbolic-link",
    summary="A symbolic link of the tree was copied as a link.",
    severity=Severity.INFO,
    doc=__doc__,
)
