"""JM814 thread-count.

## What it does
Compares OMP_NUM_THREADS, times the processes on this machine (LOCAL_WORLD_SIZE), with the cores that this
process can really have.

## Why it matters
More threads than cores take the processor from each other, and each waits for the slowest at every
parallel region. torchrun sets OMP_NUM_THREADS=1 when it is unset, which leaves a big host idle.

## Example
```
export OMP_NUM_THREADS=64     # on 16 cores
```

## Use instead
```
export OMP_NUM_THREADS=$(( $(nproc) / 8 ))     # 8 processes
```

## Fix safety
No edit is made.

## References
OpenMP 5.2, OMP_NUM_THREADS; torchrun's warning about the default of 1.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM814",
    name="thread-count",
    summary="OMP_NUM_THREADS does not fit the cores.",
    severity=Severity.WARNING,
    doc=__doc__,
)
VARIABLE = "OMP_NUM_THREADS"


def find(host: Host) -> Outcomes:
    """Judge the number of threads."""
    text = host.value(VARIABLE)
    if text is None:
        return
    threads = _number(text.partition(",")[0])
    if threads is None or threads < 1:
        yield RULE.finding(
            f"{VARIABLE} must be a whole number above 0; got {text!r}.",
            evidence={"value": text},
            action=f"unset {VARIABLE}, or give it the number of cores.",
        )
        return
    cores = host.cores.effective
    if cores is None:
        yield not_checked(RULE, "the number of cores is unknown here.")
        return
    processes = max(1, _number(host.value("LOCAL_WORLD_SIZE") or "") or 1)
    if threads * processes <= cores:
        return
    of = f" in each of {processes} processes" if processes > 1 else ""
    yield RULE.finding(
        f"{VARIABLE}={threads}{of}, and this process can have {cores:g} cores.",
        evidence={"threads": threads, "processes": processes, "cores": cores},
        why="Threads without a core of their own wait for each other at every parallel region.",
        action=f"export {VARIABLE}={max(1, int(cores // processes))}",
    )


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None
