"""JM829 left-over-processes.

## What it does
Reads the table of processes of `npu-smi info` and the open device files in /proc, and reports processes on the devices,
and memory in use on a device that shows no process.

## Why it matters
A process that a failed run left behind keeps memory and the connections of collectives: the next run ends with "out of
memory" or waits for HCCL.

## Example
```
| 0       0            | 55115         | python                   | 30784                   |
```

## Use instead
```
kill 55115        # where it is yours and not needed; npu-smi info shows whether it went
```

## Fix safety
No process is ended.

## References
`npu-smi info`; the vendor's guide "npu-smi residue" and "Malloc device memory failed" (a device that another process
holds).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.parts import Chip, DeviceProcess
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM829",
    name="left-over-processes",
    summary="Other processes hold the device, or its memory.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

MOST_IDLE_SHARE = 0.2
"""Idle chips of 64 GB show about 5 % of their memory in use."""
_MOST_NAMED = 4


def find(host: Host) -> Outcomes:
    """Report processes on the devices."""
    if not host.has_npu_software or (not host.npu.device_nodes and host.smi is None):
        return []
    if host.smi is None and host.holders is None:
        return [not_checked(RULE, "neither npu-smi nor /proc tells which processes hold a device.")]
    listed = host.smi.processes if host.smi else ()
    known = {one.pid for one in listed}
    processes = [*listed, *(one for one in host.holders or () if one.pid not in known)]
    return [*_in_use(processes), *_unexplained(host.smi.chips if host.smi else (), processes)]


def _in_use(processes: list[DeviceProcess]) -> list[Finding]:
    if not processes:
        return []
    named = [_named(one) for one in processes[:_MOST_NAMED]]
    more = f", and {len(processes) - _MOST_NAMED} more" if len(processes) > _MOST_NAMED else ""
    return [
        RULE.finding(
            f"Processes hold devices: {'; '.join(named)}{more}.",
            evidence={"pids": [one.pid for one in processes]},
            why="What a failed run left behind keeps memory and connections; the next run then fails or waits.",
            action="Look at each (ps -fp PID). End those that a failed run left, then see `npu-smi info` again.",
        )
    ]


def _named(process: DeviceProcess) -> str:
    place = f"NPU {process.npu}" if process.npu is not None else "a device"
    size = f", {process.memory_mb} MB" if process.memory_mb is not None else ""
    return f"{process.name or 'unnamed'} ({process.pid}) on {place}{size}"


def _unexplained(chips: tuple[Chip, ...], processes: list[DeviceProcess]) -> list[Finding]:
    busy = {one.npu for one in processes}
    found = []
    for chip in chips:
        if chip.npu in busy or not chip.total_mb or chip.used_mb is None:
            continue
        if chip.used_mb > MOST_IDLE_SHARE * chip.total_mb:
            found.append(
                RULE.finding(
                    f"NPU {chip.npu} has {chip.used_mb} of {chip.total_mb} MB in use, and no process is shown.",
                    evidence={"npu": chip.npu, "used_mb": chip.used_mb, "total_mb": chip.total_mb},
                    why="A process in another container holds it, or one that ended left it behind.",
                    action="Run `npu-smi info` on the host. Where it shows no process either, reset the device.",
                )
            )
    return found
