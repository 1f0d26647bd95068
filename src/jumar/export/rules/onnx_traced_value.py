"""JM714 onnx-traced-value.

## What it does
Names the places in the model's source where the TorchScript exporter turned a tensor into a Python value, in a model
that torch.export's exporter does not take. Where that one takes the model, the places are sizes, and nothing is said.

## Why it matters
The TorchScript exporter follows one run. What depends on a tensor's value there, a branch or a count, is fixed in the
file as the example inputs decided it.

## Example
```python
if x.sum() > 0:
    x = -x
```

## Use instead
```python
x = torch.where(x.sum() > 0, -x, x)
```

## Fix safety
No edit is made; the file is written as exported.

## References
PyTorch, torch.onnx (TorchScript-based exporter): tracing and data-dependent control flow.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM714",
    name="onnx-traced-value",
    summary="The exported model may hold what the example inputs decided.",
    severity=Severity.WARNING,
    doc=__doc__,
)
