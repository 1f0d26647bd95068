"""## What it does
Reports a converted file that can no longer be read: a Python source or a cell of a notebook that
Python's parser refuses, or a JSON or TOML file that is none any more, where the original was one.

## Why it matters
Such a file fails when it is loaded. It is an error of the conversion, or of a user rule whose new text
is not Python.

## Example
```python
x = torch.npu.current_stream(
```

## Use instead
```python
x = torch.npu.current_stream()
```

## Fix safety
No edit is made.

## References
- `jumar convert --verify`
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM185",
    name="result-does-not-parse",
    summary="A converted file can no longer be read.",
    severity=Severity.ERROR,
    doc=__doc__,
)
