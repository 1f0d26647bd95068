"""Operators ran on the CPU that the reference run computed on its device.

## What it does
Counts the operators, by phase, module and name, that read or wrote a tensor on the device in the reference run, and
none in the NPU run. Names the first line.

## Why it matters
What ran on the CPU was not tried on the NPU, and it costs time there. The usual reason is a test of the device
that was not converted.

## Example
`12 operator calls ran on the CPU that the reference ran on CUDA, first aten::conv2d in backbone`

## Use instead
Look at the line, and at what moves the module or tensor to the device.

## Fix safety
No edit is made.

## References
`jumar docs guide-port`, the verdict.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM907",
    name="fell-back",
    summary="Operators ran on the CPU that the reference run computed on its device.",
    severity=Severity.WARNING,
    doc=__doc__,
)
