"""JM813 cpu-quota.

## What it does
Compares the processor time that the container may use with the cores it sees.

## Why it matters
`os.cpu_count()`, OpenMP and many DataLoader recipes count the cores of the machine. With a quota of 4 on a
machine of 192 they start 192 threads that the scheduler then stops most of the time.

## Example
```
docker run --cpus 4 image python -c "import os; print(os.cpu_count())"     # 192
```

## Use instead
```
docker run --cpuset-cpus 0-3 image ...      # or OMP_NUM_THREADS=4 and num_workers=4
```

## Fix safety
No edit is made.

## References
Linux cgroups: cpu.max, cpu.cfs_quota_us.
"""

from __future__ import annotations

import math

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM813",
    name="cpu-quota",
    summary="The container may use less processor time than the cores it sees.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare quota and cores."""
    quota, cores = host.cores.quota, host.cores.num_usable or host.cores.num_cores
    if quota is None or cores is None:
        yield not_checked(RULE, "the container's processor quota cannot be read here.")
        return
    if math.isinf(quota) or quota >= cores:
        return
    whole = max(1, math.floor(quota))
    yield RULE.finding(
        f"This container may use {quota:g} cores' worth of time and sees {cores} cores.",
        evidence={"quota_cores": quota, "visible_cores": cores},
        why="Programs start one thread for each core they see. The scheduler then stops most of them in turn.",
        action=f"Set OMP_NUM_THREADS and num_workers for {whole}, or give whole cores (--cpuset-cpus).",
    )
