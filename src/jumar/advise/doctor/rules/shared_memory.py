"""JM815 small-shared-memory.

## What it does
Measures `/dev/shm`: less than 1 GiB in all is a warning, and so is less than 256 MiB free.

## Why it matters
DataLoader workers hand every batch over through it. A container gets 64 MiB unless told otherwise, and then
the first large batch ends with "Bus error. It is possible that dataloader's workers are out of shared memory".

## Example
```
docker run image python train.py
```

## Use instead
```
docker run --shm-size 16g image python train.py      # or --ipc host
```

## Fix safety
No edit is made.

## References
PyTorch, "Multiprocessing best practices" and the README of the PyTorch image (`--ipc=host`, `--shm-size`).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.base.text import GIB, MIB, size_text

RULE = Rule(
    code="JM815",
    name="small-shared-memory",
    summary="/dev/shm is too small for DataLoader workers.",
    severity=Severity.WARNING,
    doc=__doc__,
)
LEAST_BYTES = GIB
"""Eight workers with two prefetched batches of 256 images of 224x224x3 floats hold 2.3 GiB; small ones fit 1 GiB."""
LEAST_FREE_BYTES = 256 * MIB


def find(host: Host) -> Outcomes:
    """Judge the size and what is free."""
    shared = host.shared_memory
    if shared is None:
        yield not_checked(RULE, "/dev/shm cannot be measured here.")
        return
    if shared.total_bytes >= LEAST_BYTES and shared.free_bytes >= LEAST_FREE_BYTES:
        return
    yield RULE.finding(
        f"{shared.path} has {size_text(shared.total_bytes)}, {size_text(shared.free_bytes)} of it free.",
        evidence={"total_bytes": shared.total_bytes, "free_bytes": shared.free_bytes},
        why="DataLoader workers pass every batch through it and end with a bus error when it is full.",
        action="Start the container with --shm-size 16g or --ipc host; until then use num_workers=0.",
    )
