"""JM816 low-host-memory.

## What it does
Reports when less than 4 GiB, or less than a twentieth of the host's memory, is available, and a container
limit far below the machine's memory.

## Why it matters
The kernel ends the process that takes most: the run stops with "Killed" and nothing else. Operator
compilation and tuning start many processes beside the training.

## Example
```
$ dmesg | grep "Out of memory"
Out of memory: Killed process 994362 (aoe) total-vm:23064888kB
```

## Use instead
Fewer DataLoader workers, a smaller TE_PARALLEL_COMPILER, or a host with more memory.

## Fix safety
No edit is made.

## References
The vendor's article on typical AOE tuning problems (a process ended without a message); Linux, /proc/meminfo.
"""

from __future__ import annotations

from jumar.doctor.check import Check, NotChecked, Outcome
from jumar.doctor.host import GIB, Host
from jumar.doctor.sizes import size_text
from jumar.findings import Severity
from jumar.rules import Rule

RULE = Rule(
    code="JM816",
    name="low-host-memory",
    summary="Little of the host's memory is available.",
    severity=Severity.WARNING,
    doc=__doc__,
)
LEAST_BYTES = 4 * GIB
LEAST_SHARE = 0.05


def look(host: Host) -> Outcome:
    """Judge available memory and the container's limit."""
    memory = host.memory
    if memory.available_bytes is None or memory.total_bytes is None:
        return NotChecked("the host's memory cannot be read here.")
    total = min(memory.total_bytes, memory.limit_bytes or memory.total_bytes)
    available = min(memory.available_bytes, total)
    if available >= max(LEAST_BYTES, LEAST_SHARE * total):
        return []
    limited = " (the container's limit)" if total < memory.total_bytes else ""
    return [
        RULE.finding(
            f"{size_text(available)} of {size_text(total)}{limited} of the host's memory are available.",
            evidence={"available_bytes": available, "total_bytes": total},
            why="When it runs out, the kernel ends the training without a message of its own.",
            action="End left-over processes, use fewer DataLoader workers, or raise the container's limit.",
        )
    ]


CHECK = Check(rule=RULE, look=look)
