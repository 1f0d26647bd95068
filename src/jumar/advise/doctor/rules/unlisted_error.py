"""JM852 unlisted-vendor-error.

## What it does
Reports a line in the vendor's form of an error that Jumar's table does not know: a code such as `EX1234: …` or
`Name(EX1234)`, or a plog line `[ERROR] MODULE(pid,process):time …` of a file in which nothing else was recognised.

## Why it matters
The codes grow with every release. The first ERROR line of a plog is usually the one to search for.

## Example
```
[ERROR] RUNTIME(160809,python3):2024-02-02-22:23:56.475.679 [engine.cc:1408]12828 ReportExceptProc:...
```

## Use instead
Search the vendor's error reference for the code, or the plog for the first ERROR of that module.

## Fix safety
No edit is made.

## References
plog format: github.com/Ascend/pytorch, troubleshooting guide, "plog"; the codes' scheme: same place,
"Error code description".
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM852",
    name="unlisted-vendor-error",
    summary="A log holds an error of the vendor's software that Jumar's table does not explain.",
    severity=Severity.ERROR,
    doc=__doc__,
)
