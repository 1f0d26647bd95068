"""## What it does
Reports a comment such as `# jumar: ignore[JM101]` that ignores nothing: no rule of those it names has
anything to say about its line.

## Why it matters
It hides what is written into the line later, and readers look for a reason that is gone. Most often the
line it stood for was changed, or the code in it is mistyped.

## Example
```python
x = x.to(device)  # jumar: ignore[JM102]
```

## Use instead
```python
x = x.to(device)
```

## Fix safety
No edit is made. Comments in files without anything of CUDA are not looked at.

## References
- `jumar docs guide-convert`, "Leaving places alone"
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM196",
    name="unused-ignore",
    summary="A comment tells Jumar to ignore something that is not there.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
