"""A device of the comparison was emulated.

## What it does
States which of the two devices was not the real one: the emulated NPU where `torch_npu` is not
installed, CPU kernels standing in for CUDA where there is no GPU.

## Why it matters
An emulated run proves that the converted script runs, places its tensors correctly and computes the
same results with the same kernels. It says nothing about the speed of the hardware, nor about
rounding in its own kernels.

## Example
`NPU: npu (emulated), Ascend910B1`

## Use instead
Repeat the same command on a machine with the device before relying on speed or on the last digits.

## Fix safety
No edit is made.

## References
`jumar docs design`, the emulated NPU.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM905",
    name="emulated-device",
    summary="A device of the comparison was emulated.",
    severity=Severity.INFO,
    doc=__doc__,
)
