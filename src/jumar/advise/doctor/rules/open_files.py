"""JM818 open-file-limit.

## What it does
Reads how many files a process may have open, and advises when it is less than 4096.

## Why it matters
Each tensor that a DataLoader worker shares takes a descriptor, and so does every connection of a
collective. The limit is 1024 by default: "Too many open files", or "received 0 items of ancdata".

## Example
```
$ ulimit -n
1024
```

## Use instead
```
$ ulimit -n 65536
```

## Fix safety
No edit is made.

## References
PyTorch, torch.multiprocessing, "Sharing strategies" (file_descriptor).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM818",
    name="open-file-limit",
    summary="A process may have few files open.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
LEAST = 4096


def find(host: Host) -> Outcomes:
    """Judge the soft limit."""
    limit = host.open_files
    if limit is None:
        if host.system == "Linux":
            return
        yield not_checked(RULE, f"the limit of open files cannot be read on {host.system}.")
        return
    if limit >= LEAST:
        return
    yield RULE.finding(
        f"A process may have {limit} files open.",
        evidence={"open_files": limit},
        why="Every tensor a DataLoader worker shares takes one, and every connection of a collective.",
        action="ulimit -n 65536",
    )
