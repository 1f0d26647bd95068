"""JM817 low-disk-space.

## What it does
Measures the file systems a job writes to: its folder, temporary files, and the vendor's logs and kernel caches
in the home folder. Less than 20 GiB is advice, less than 2 GiB a warning.

## Why it matters
Compiled kernels, dumps and checkpoints fill disks. Tuning asks for 20 GiB in the home folder; data and
overflow dumps write every operator's tensors.

## Example
```
OSError: [Errno 28] No space left on device
```

## Use instead
```
export ASCEND_WORK_PATH=/data/work ASCEND_CACHE_PATH=/data/cache
```

## Fix safety
No edit is made.

## References
The vendor's guides to subgraph and operator tuning (20 GB) and to overflow data (dumps fill the disk).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host, Volume
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import GIB, size_text

RULE = Rule(
    code="JM817",
    name="low-disk-space",
    summary="A file system that the job writes to is nearly full.",
    severity=Severity.WARNING,
    doc=__doc__,
)
LEAST_BYTES, TUNING_BYTES = 2 * GIB, 20 * GIB


def find(host: Host) -> Outcomes:
    """Judge each file system."""
    if not host.volumes:
        return [not_checked(RULE, "no file system could be measured here.")]
    return [_finding(volume) for volume in host.volumes if volume.free_bytes < TUNING_BYTES]


def _finding(volume: Volume) -> Finding:
    return RULE.finding(
        f"{size_text(volume.free_bytes)} are free in {volume.path} ({volume.purpose}).",
        severity=Severity.WARNING if volume.free_bytes < LEAST_BYTES else Severity.ADVICE,
        evidence={"free_bytes": volume.free_bytes, "total_bytes": volume.total_bytes},
        why="Checkpoints, compiled kernels, dumps and logs go there; tuning asks for 20 GiB in the home folder.",
        action="Make room, or point ASCEND_WORK_PATH, ASCEND_CACHE_PATH and TMPDIR elsewhere.",
    )
