"""JM701 overflowing-dtype.

## What it does
Counts the finite values that became infinite when an export changed the dtype (`--dtype fp16`).

## Why it matters
float16 ends at 65504. Running variances of BatchNorm and unscaled weights can be greater; one infinite value
turns the model's output into NaN.

## Example
```
jumar export checkpoint last.pt model.pt --dtype fp16
```

## Use instead
```
jumar export checkpoint last.pt model.pt --dtype bf16
```

## Fix safety
No edit is made; the file is written as asked.

## References
IEEE 754 binary16; `torch.finfo`.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM701",
    name="overflowing-dtype",
    summary="Values do not fit the dtype of the export and became infinite.",
    severity=Severity.WARNING,
    doc=__doc__,
)
