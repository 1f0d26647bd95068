"""The model was not computed on the NPU.

## What it does
Counts in the recording of the NPU run the operators that read or wrote a tensor on the NPU. Reports that there is
none; of a run that trains also that no trained parameter and no backward operator was there, of another one that no
module was.

## Why it matters
A script that runs on the CPU shows nothing about the NPU. Its results agree with the reference's for the wrong
reason.

## Example
`train.py` was started with `--device cpu`; 0 of 412 operator calls ran on the NPU.

## Use instead
Give the script the arguments with which it trains on CUDA. Where the reference run used CUDA and the converted
script did not, look at the line that chooses the device: its test was not converted.

## Fix safety
No edit is made.

## References
`jumar docs guide-port`, the verdict.
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM906",
    name="not-on-the-device",
    summary="The model was not computed on the NPU.",
    severity=Severity.ERROR,
    doc=__doc__,
)
