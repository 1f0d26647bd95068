"""JM822 cores-per-process.

## What it does
Divides the cores that this process can have by the processes on this machine (LOCAL_WORLD_SIZE, else one for each
device), and advises when less than four are left for one.

## Why it matters
A process that trains on an NPU keeps four threads busy: Python, autograd, and two of torch_npu's queue that launches
operators. DataLoader workers come on top. With fewer cores the NPU waits for the host.

## Example
```
docker run --cpus 8 ...      # 8 processes: one core each
```

## Use instead
```
docker run --cpuset-cpus 0-63 ...
```

## Fix safety
No edit is made.

## References
CPU_AFFINITY_CONF, environment variables of torch_npu: main thread, backward thread, acl_thread and release_thread.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM822",
    name="cores-per-process",
    summary="A training process on the NPU has few cores.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

LEAST = 4


def find(host: Host) -> Outcomes:
    """Divide cores by processes."""
    if not host.has_npu_software:
        return
    cores = host.cores.effective
    if cores is None:
        yield not_checked(RULE, "the number of cores is unknown here.")
        return
    processes = host.num_processes if host.number("LOCAL_WORLD_SIZE") else host.num_devices or 1
    if cores / processes >= LEAST:
        return
    words = ("process", "processes") if host.number("LOCAL_WORLD_SIZE") else ("device", "devices")
    yield RULE.finding(
        f"{cores:g} cores for {processes} {words[processes > 1]}: {cores / processes:.3g} each.",
        evidence={"cores": cores, "processes": processes},
        why="Python, autograd and the queue that launches operators keep about four cores busy in each process.",
        action="Give the container more cores, or use fewer devices and DataLoader workers.",
    )
