"""JM834 hccl-ports.

## What it does
For runs with several ranks on NPUs: compares HCCL's ports (32 from HCCL_IF_BASE_PORT, 60000 by default) with those in
use, and with the range from which the kernel serves connections.

## Why it matters
HCCL collects the cluster's addresses over these ports. Where another program got one, the run ends with a bind or
connection error, now and then.

## Example
```
$ sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
net.ipv4.ip_local_port_range = 32768 60999
net.ipv4.ip_local_reserved_ports =
```

## Use instead
```
$ sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
HCCL_IF_BASE_PORT, environment variables of CANN.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM834",
    name="hccl-ports",
    summary="Ports that HCCL uses are taken, or the system may give them away.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

VARIABLE = "HCCL_IF_BASE_PORT"
DEFAULT, NUM_PORTS = 60000, 32
"""Until CANN 8.1 it was 16 ports."""


def find(host: Host) -> Outcomes:
    """Judge the ports, where ranks meet on NPUs."""
    if not (host.has_npu_software and host.is_distributed):
        return
    first = host.number(VARIABLE) or DEFAULT
    ports = range(first, first + NUM_PORTS)
    kernel, listening = host.kernel, host.network.listening
    if listening is None:
        yield not_checked(RULE, "the ports in use cannot be read here.", partly=True)
    taken = sorted(set(ports) & (listening or frozenset()))
    if taken:
        yield RULE.finding(
            f"Ports that HCCL uses ({first} to {ports[-1]}) are taken: {', '.join(map(str, taken[:8]))}.",
            severity=Severity.WARNING,
            evidence={"taken": list(taken), "first": first},
            why="A run that is still there, or another program, listens on them.",
            action=f"End it (ss -ltnp shows which), or choose other ports with {VARIABLE}.",
        )
    if kernel.local_ports is None or kernel.reserved_ports is None:
        yield not_checked(RULE, "the kernel's range of ports cannot be read here.", partly=True)
        return
    low, high = kernel.local_ports
    free = [port for port in ports if low <= port <= high and not _is_reserved(port, kernel.reserved_ports)]
    if free:
        setting = reserved(kernel.reserved_ports, first, ports[-1])
        yield RULE.finding(
            f"The system may give HCCL's ports {free[0]} to {free[-1]} to other connections.",
            evidence={"first": free[0], "last": free[-1], "range": [low, high]},
            why="HCCL then cannot bind to them, now and then.",
            action=f"sysctl -w net.ipv4.ip_local_reserved_ports={setting} (as root)",
        )


def reserved(ranges: tuple[tuple[int, int], ...], first: int, last: int) -> str:
    """Return the setting that reserves these ports beside those that are reserved."""
    told = [f"{low}-{high}" if high > low else str(low) for low, high in ranges]
    return ",".join([*told, f"{first}-{last}"])


def _is_reserved(port: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= port <= high for low, high in ranges)
