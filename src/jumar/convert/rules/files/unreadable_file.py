"""## What it does
Reports a notebook that is no JSON document of the notebook format, a cell or here-document whose Python
cannot be parsed, and code given as a string (`python -c "..."`) that names CUDA. They are copied as they are.

## Why it matters
Nothing in it was converted or looked at.

## Example
```text
{"cells": [{"cell_type": "code", "source": ["x.cuda()
```

## Use instead
```text
the notebook saved again by Jupyter
```

## Fix safety
No fix.

## References
- nbformat 4
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM128",
    name="unreadable-file",
    summary="A notebook, script or part of one could not be read, so nothing in it was converted.",
    severity=Severity.WARNING,
    doc=__doc__,
)
