"""JM712 atc-operator-not-taken.

## What it does
Reads the operators of the exported ONNX file, those of inner graphs and functions too, and reports each type that
CANN's open operator packages register for other operator sets than the file's. ATC is not run.

## Why it matters
ATC's parser looks an operator up under its type and the operator set of the whole file. A type that is registered for
the sets 8 to 18 is refused in a file of set 20, also where the standard has not changed it.

## Example
```
jumar export onnx models:build model.onnx --opset 20
```

## Use instead
```
jumar export onnx models:build model.onnx --opset 11
```

## Fix safety
No edit is made; the file is written as asked.

## References
Registrations of ONNX plug-ins in the CANN packages ops-math, ops-nn and ops-cv, and the parser in GE; the addresses,
commits and date are in `export/onnx/data/atc_onnx.json`. The migration guide for PyTorch, on exporting
ONNX: ATC of that time took set 11 only.
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM712",
    name="atc-operator-not-taken",
    summary="ATC does not take an operator at the file's operator set.",
    severity=Severity.WARNING,
    doc=__doc__,
)
