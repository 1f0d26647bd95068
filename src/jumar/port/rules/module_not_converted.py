"""A module of the project ran on the NPU side unconverted.

## What it does
Reports a module that the converted script imported, that uses CUDA, and that was not converted: neither the script's
source nor the reference run showed that it is imported.

## Why it matters
Its uses of CUDA fail on the NPU, or choose the CPU.

## Example
A script that imports `plugins.npu_extra` by a name that it computes.

## Use instead
Convert the file with `jumar convert -i FILE -o OUT`, or import it on both sides.

## Fix safety
No edit is made.

## References
`jumar docs guide-port`.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM909",
    name="module-not-converted",
    summary="A module of the project that uses CUDA ran on the NPU side unconverted.",
    severity=Severity.WARNING,
    doc=__doc__,
)
