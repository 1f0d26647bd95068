"""JM850 known-error-in-log.

## What it does
Reads logs line by line and recognises the errors that the vendor's documents list: messages, error codes of
torch_npu (ERR00100), of CANN (EI0002, E40021) and return codes of AscendCL (507015). Errors close together and of
one writer count as one incident, named after its most telling line: a cause before what it led to, and that before
a call that only says that something failed; of two causes the one that explains the other, then a message before a
bare code. Incidents are ordered by time over all files and ranks; the first is the one to look at, later ones are
usually its consequences.

## Why it matters
One failure prints dozens of lines on every rank, most of them about not being able to go on. The text that
says what happened is one of them, often in the log of another rank.

## Example
```
RuntimeError: Initialize:... error code is 107001
[ERROR] 2025-08-06-16:15:27 (PID:2228607, Device:0, RankID:-1) ERR00100 PTA call acl api failed
EE1001: [PID: 2228607] 2025-08-06-16:15:27.377.593 The argument is invalid.Reason: Set device failed
```

## Use instead
The action that the finding names; its source says where it is written.

## Fix safety
No edit is made.

## References
Questions and answers of the vendor's migration and tuning guides; cases and error codes of
github.com/Ascend/pytorch; error code reference of github.com/hicann/runtime; HCCL's texts (github.com/hicann/hcomm).
"""

from __future__ import annotations

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM850",
    name="known-error-in-log",
    summary="A log holds an error that the vendor's documents explain.",
    severity=Severity.ERROR,
    doc=__doc__,
)
