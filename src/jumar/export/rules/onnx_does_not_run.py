"""JM711 onnx-does-not-run.

## What it does
Runs the exported ONNX file in ONNX Runtime, on the example inputs and with other sizes of the axes that were left open,
and reports a file or a size that ONNX Runtime refuses and PyTorch takes.

## Why it matters
An exporter can mark an axis as open and keep a number in the file that holds for the example's size alone: the file
loads and stops at the first other batch.

## Example
```python
def forward(self, x):
    return x.reshape(int(x.shape[0]), -1)  # a trace keeps the number
```

## Use instead
```python
def forward(self, x):
    return x.flatten(1)
```

## Fix safety
No edit is made; the file is written as exported.

## References
PyTorch, torch.onnx (`dynamic_shapes`, `dynamic_axes`); ONNX Runtime.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM711",
    name="onnx-does-not-run",
    summary="ONNX Runtime refuses the exported model, or inputs that PyTorch takes.",
    severity=Severity.ERROR,
    doc=__doc__,
)
