"""JM713 atc-operator-unknown.

## What it does
Reads the operators of the exported ONNX file and names each type that is not in the table of what CANN's open operator
packages register. It does not say that ATC refuses it: a release may bring more than the packages show.

## Why it matters
ATC stops at an operator without a plug-in. It is better to know before the file goes to the machine with CANN.

## Example
```python
torch.nn.RNN(8, 16)  # ONNX's RNN is in none of the packages
```

## Use instead
```python
torch.nn.GRU(8, 16)
```

## Fix safety
No edit is made; the file is written as asked.

## References
As for JM712; the list of operators of the CANN release decides.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM713",
    name="atc-operator-unknown",
    summary="Whether ATC takes an operator of the file is not known.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
