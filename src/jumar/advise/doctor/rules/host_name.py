"""JM838 host-name.

## What it does
On jobs with several machines, looks up the host name in /etc/hosts.

## Why it matters
Gloo and the store of rank 0 tell the others the address of their own name. 127.0.0.1 leads every other machine to
itself: "Connection refused".

## Example
```
127.0.1.1   node-17
```

## Use instead
```
192.168.0.17   node-17
```

## Fix safety
No edit is made.

## References
PyTorch, torch.distributed (Gloo); Debian manual, the host name resolution (127.0.1.1).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM838",
    name="host-name",
    summary="This machine's name leads to its loopback address.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the entry of the host name."""
    if host.num_nodes < 2:
        return
    name = host.network.host_name
    if not name:
        yield not_checked(RULE, "the host name cannot be read here.")
        return
    found = host.network.names.get(name, ())
    if not found or not all(address.startswith("127.") or address == "::1" for address in found):
        return
    yield RULE.finding(
        f"/etc/hosts gives this machine's name {name} the address {found[0]}.",
        evidence={"name": name, "addresses": list(found)},
        why="Libraries tell other machines the address of their own name; this one leads each machine to itself.",
        action=f"Write the outer address before {name} in /etc/hosts, or export GLOO_SOCKET_IFNAME and HCCL_IF_IP.",
    )
