"""JM839 device-addresses.

## What it does
On jobs with several machines, reads the addresses of the devices' own network ports in /etc/hccn.conf: missing, no
address, twice the same.

## Why it matters
Devices of different machines talk through these ports. A device without an address cannot join: EI0006 after the
timeout, or "device ip is invalid".

## Example
```
address_0=192.168.100.101
netmask_0=255.255.255.0
address_1=192.168.100.101
```

## Use instead
```
hccn_tool -i 1 -ip -s address 192.168.100.102 netmask 255.255.255.0
```

## Fix safety
No edit is made.

## References
hccn_tool reference; /etc/hccn.conf (address_N, netmask_N, IPv6address_N).
"""

from __future__ import annotations

import ipaddress
from collections import Counter

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM839",
    name="device-addresses",
    summary="A device has no address, or a wrong one, in /etc/hccn.conf.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the addresses, where devices of several machines meet."""
    if host.num_nodes < 2 or not host.npu.device_nodes:
        return
    addresses = host.network.device_addresses
    if addresses is None:
        yield not_checked(RULE, "/etc/hccn.conf is not here; mount it into the container.")
        return
    for number, text in sorted(addresses.items()):
        if not _is_address(text):
            yield RULE.finding(
                f"/etc/hccn.conf gives device {number} the address {text!r}, which is none.",
                evidence={"device": number, "address": text},
                action=f"hccn_tool -i {number} -ip -s address ADDRESS netmask MASK",
            )
    for text, count in Counter(addresses.values()).items():
        if count > 1:
            yield RULE.finding(
                f"/etc/hccn.conf gives {count} devices the address {text}.",
                evidence={"address": text, "devices": [number for number, one in addresses.items() if one == text]},
                action="Give each device an address of its own (hccn_tool -i N -ip -s address ADDRESS netmask MASK).",
            )
    numbers = [int(node.rpartition("davinci")[2]) for node in host.npu.device_nodes]
    missing = [number for number in numbers if number not in addresses]
    if missing:
        yield RULE.finding(
            f"/etc/hccn.conf has no address for device {', '.join(map(str, missing))}.",
            evidence={"devices": list(missing)},
            why="Devices of other machines cannot reach it, except within a super pod.",
            action=f"hccn_tool -i {missing[0]} -ip -s address ADDRESS netmask MASK",
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
