"""## What it does
Reports a name that the conversion changed in one place of a file and not in another that must agree with
it: an attribute or enumeration member where it is used but not where it is defined, a keyword argument but
not the parameter, a key of a dictionary but not its readers, a default but not the choices it must be one
of, one part of a compound back end (`npu:nccl`).

## Why it matters
Each half is valid by itself; together they raise AttributeError, TypeError or KeyError, or refuse the
command line that worked before.

## Example
```python
class Device(Enum):
    CUDA = 0

use(Device.NPU)
```

## Use instead
```python
class Device(Enum):
    CUDA = 0

use(Device.CUDA)
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
    code="JM188",
    name="half-renamed",
    summary="A name was changed in one place and not in another that must agree with it.",
    severity=Severity.ERROR,
    doc=__doc__,
)
