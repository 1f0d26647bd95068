"""The script did not run on the reference device.

## What it does
Reports that the script, unchanged, ended with an error on the reference device: a CUDA device where
there is one, else the CPU kernels that stand in for it.

## Why it matters
Without a reference run nothing can be said about the accuracy of the converted script. An error here
is an error of the script, its arguments or its data, not of the conversion.

## Example
`FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'`

## Use instead
Run the script as it is first (`python SCRIPT ARGS` on a CUDA machine) until one step completes, then
repeat `jumar port` with the same arguments after `--`.

## Fix safety
No edit is made.

## References
`jumar run --help`
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM901",
    name="reference-run-failed",
    summary="The unchanged script ended with an error on the reference device.",
    severity=Severity.ERROR,
    doc=__doc__,
)
