"""JM831 process-limits.

## What it does
Reads the soft limits of processes (`ulimit -u`) and of the stack (`ulimit -s`).

## Why it matters
DataLoader workers, compilers and the threads of OpenMP all count as processes of the user: "Resource temporarily
unavailable". The compiler of graphs recurses deeply and crashes on a small stack.

## Example
```
$ ulimit -u
1024
```

## Use instead
```
$ ulimit -u 65536; ulimit -s 8192
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
setrlimit(2), RLIMIT_NPROC and RLIMIT_STACK.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.base.text import MIB, size_text

RULE = Rule(
    code="JM831",
    name="process-limits",
    summary="A limit of processes or of the stack is low.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

LEAST_PROCESSES = 4096
LEAST_STACK_BYTES = 8 * MIB


def find(host: Host) -> Outcomes:
    """Judge both limits."""
    limits = host.limits
    if limits.processes is None and limits.stack_bytes is None:
        yield not_checked(RULE, f"the limits of a process cannot be read on {host.system}.")
        return
    if limits.processes is not None and limits.processes < LEAST_PROCESSES:
        yield RULE.finding(
            f"This user may have {limits.processes:.0f} processes and threads.",
            evidence={"processes": limits.processes},
            why="Workers, compilers and threads all count; at the limit none can be started.",
            action="ulimit -u 65536",
        )
    if limits.stack_bytes is not None and limits.stack_bytes < LEAST_STACK_BYTES:
        yield RULE.finding(
            f"The stack of a process may have {size_text(limits.stack_bytes)}.",
            evidence={"stack_bytes": limits.stack_bytes},
            why="Compilers of graphs recurse deeply and crash on a small stack.",
            action="ulimit -s 8192",
        )
