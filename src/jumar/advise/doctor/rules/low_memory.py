"""JM816 low-host-memory.

## What it does
Reports when less than 4 GiB, or less than a twentieth of the host's memory, is available. In a container with a
limit it counts what the container may still use: the limit less what the container uses.

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

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.base.text import GIB, size_text

RULE = Rule(
    code="JM816",
    name="low-host-memory",
    summary="Little of the host's memory is available.",
    severity=Severity.WARNING,
    doc=__doc__,
)
LEAST_BYTES = 4 * GIB
LEAST_SHARE = 0.05


def find(host: Host) -> Outcomes:
    """Judge the memory that is available on the machine, or in the container where it has less."""
    memory = host.memory
    if memory.available_bytes is None or memory.total_bytes is None:
        yield not_checked(RULE, "the host's memory cannot be read here.")
        return
    total, available = memory.total_bytes, memory.available_bytes
    if available >= max(LEAST_BYTES, LEAST_SHARE * total):
        return
    in_container = memory.machine_bytes is not None and total < memory.machine_bytes
    owner, remedy = ("container", "give the container more") if in_container else ("host", "add memory")
    yield RULE.finding(
        f"{size_text(available)} of the {owner}'s {size_text(total)} of memory are available.",
        evidence={"available_bytes": available, "total_bytes": total},
        why="When it runs out, the kernel ends the training without a message of its own.",
        action=f"End left-over processes, use fewer DataLoader workers, or {remedy}.",
    )
