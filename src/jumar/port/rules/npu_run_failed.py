"""The converted script did not run on the NPU.

## What it does
Reports that the script ran on the reference device, and its converted form ended with an error on
the NPU, with the user's part of the traceback.

## Why it matters
The conversion does not count until it runs. Typical reasons are an operator or data type that the
NPU lacks, a CUDA-only call that was left in place, or a tensor that stayed on the CPU.

## Example
`RuntimeError: Expected all tensors to be on the same device, but found at least two devices, npu:0 and cpu!`

## Use instead
Open the line the traceback names in the converted source, look at the findings for the same line, and
mend the original; then repeat `jumar port`.

## Fix safety
No edit is made.

## References
`jumar run --help`
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM902",
    name="npu-run-failed",
    summary="The converted script ended with an error on the NPU.",
    severity=Severity.ERROR,
    doc=__doc__,
)
