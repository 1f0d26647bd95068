"""JM702 onnx-output-differs.

## What it does
Runs the exported ONNX file in ONNX Runtime on the example inputs, beside the PyTorch model, and reports an
output that differs by more than the tolerance, or in shape.

## Why it matters
An export traces the model: a branch on a value, a constant taken from the example or a converter's error gives
a file that loads, runs and computes something else.

## Example
```
output 0 of the ONNX model differs by up to 0.31 (tolerance 0.0001 + 0.001 · |reference|)
```

## Use instead
Put the model in `eval()` mode in the factory, remove branches on tensor values, or raise the tolerance
knowingly (`--rtol`, `--atol`) for a model in half precision.

## Fix safety
No edit is made; the file is written as exported.

## References
PyTorch, torch.onnx (`dynamo=True`, `report`); ONNX Runtime.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM702",
    name="onnx-output-differs",
    summary="The exported ONNX model computes other values than the PyTorch model.",
    severity=Severity.ERROR,
    doc=__doc__,
)
