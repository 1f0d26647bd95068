"""JM824 memory-pressure.

## What it does
Reads how long programs waited for memory in the last minute (PSI, of the container where it tells), and whether the
kernel promises more memory than there is (vm.overcommit_memory).

## Why it matters
A host that swaps or reclaims trains at a fraction of its speed, long before anything fails. With overcommit off, `fork`
of a large process fails with "Cannot allocate memory" although memory is free.

## Example
```
$ cat /proc/pressure/memory
full avg10=31.20 avg60=24.10 avg300=9.97 total=9120332
```

## Use instead
Fewer DataLoader workers, less cache in the program, or more memory. For overcommit:
```
$ sysctl -w vm.overcommit_memory=0
```

## Fix safety
Overcommit: `jumar doctor --fix` can set it and writes how to undo it.

## References
Linux, Documentation/accounting/psi.rst and Documentation/mm/overcommit-accounting.rst.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM824",
    name="memory-pressure",
    summary="Programs wait for memory, or may reserve no more of it.",
    severity=Severity.WARNING,
    doc=__doc__,
)

MOST_FULL_PERCENT, MOST_SOME_PERCENT = 10.0, 40.0
MOST_COMMITTED = 0.9
STRICT = 2


def find(host: Host) -> Outcomes:
    """Judge pressure and overcommit."""
    outcomes = [*_pressure(host), *_commitments(host)]
    if outcomes or host.pressure is not None:
        return outcomes
    return [not_checked(RULE, "the kernel does not tell how long programs wait for memory.", partly=True)]


def _pressure(host: Host) -> list[Finding]:
    pressure = host.pressure
    if pressure is None:
        return []
    if pressure.full_percent <= MOST_FULL_PERCENT and pressure.some_percent <= MOST_SOME_PERCENT:
        return []
    owner = "this container" if pressure.in_container else "this machine"
    return [
        RULE.finding(
            f"In the last minute programs of {owner} waited for memory {pressure.some_percent:.0f} % of the time, "
            f"all of them at once {pressure.full_percent:.0f} %.",
            evidence={"some_percent": pressure.some_percent, "full_percent": pressure.full_percent},
            why="Memory is reclaimed or swapped all the time; training slows down, and in the end a process is killed.",
            action="End left-over processes, use fewer DataLoader workers, or give it more memory.",
        )
    ]


def _commitments(host: Host) -> list[Finding]:
    limit, committed = host.memory.commit_limit_bytes, host.memory.committed_bytes
    if host.kernel.overcommit != STRICT or not limit or committed is None or committed < MOST_COMMITTED * limit:
        return []
    return [
        RULE.finding(
            f"vm.overcommit_memory is 2, and {committed / limit:.0%} of what may be reserved is reserved.",
            evidence={"committed_bytes": committed, "limit_bytes": limit},
            why='New processes (DataLoader workers) then fail with "Cannot allocate memory" although memory is free.',
            action="sysctl -w vm.overcommit_memory=0 (as root)",
        )
    ]
