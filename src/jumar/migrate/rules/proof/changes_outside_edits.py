"""## What it does
Reports a converted file whose bytes do not follow from its recorded edits: something outside them differs
from the original (a line end, the encoding, a comment), the edits made again give another text, or a second
conversion changes the result once more.

## Why it matters
What is not recorded is not reviewed. A conversion that does not come to rest adds to the sources each time
it is run, and cannot be checked in CI.

## Example
```python
import torch_npu
import torch_npu
```

## Use instead
```python
import torch_npu
```

## Fix safety
No edit is made.

## References
- `docs/guide-convert.md`
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM189",
    name="changes-outside-edits",
    summary="The result does not follow from the recorded edits, or a second conversion changes it again.",
    severity=Severity.ERROR,
    doc=__doc__,
)
