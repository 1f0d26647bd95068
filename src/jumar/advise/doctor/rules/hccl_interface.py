"""JM837 hccl-interface.

## What it does
Compares HCCL_IF_IP with this machine's addresses, and HCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME with
its interfaces. HCCL's forms are `eth` (prefix), `=eth0` (name), `^eth` and `^=eth0` (all others).

## Why it matters
The variables are copied from another machine with other names. HCCL then finds no interface, or Gloo ends with "Unable
to find address".

## Example
```
export HCCL_SOCKET_IFNAME==enp189s0f0        # here it is eth0
```

## Use instead
```
export HCCL_SOCKET_IFNAME==eth0
```

## Fix safety
No edit is made.

## References
HCCL_IF_IP and HCCL_SOCKET_IFNAME, environment variables of CANN; torch.distributed, "choosing the network interface".
"""

from __future__ import annotations

import ipaddress

from jumar.advise.checks import NotChecked, Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM837",
    name="hccl-interface",
    summary="HCCL is told an address or an interface that this machine does not have.",
    severity=Severity.ERROR,
    doc=__doc__,
)

EXACT = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
FLEXIBLE = "HCCL_SOCKET_IFNAME"
ADDRESS = "HCCL_IF_IP"


def find(host: Host) -> Outcomes:
    """Judge the address and the names."""
    outcomes = [*_address(host)]
    for name in (FLEXIBLE, *EXACT):
        text = host.value(name)
        if text:
            outcomes += _interface(host, name, text)
    return outcomes


def _address(host: Host) -> list[Finding | NotChecked]:
    text = host.value(ADDRESS)
    if not text:
        return []
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return [_finding(ADDRESS, text, f"{ADDRESS} must be an address; got {text!r}.", f"unset {ADDRESS}")]
    own = host.network.own
    if not own:
        return [not_checked(RULE, "the addresses of this machine cannot be read here.", partly=True)]
    if str(parsed) not in own:
        message = f"{ADDRESS}={text} is no address of this machine."
        return [_finding(ADDRESS, text, message, f"Write one of {', '.join(_outer(host))}, or unset {ADDRESS}.")]
    if parsed.is_loopback and host.num_nodes > 1:
        message = f"{ADDRESS}={text} is the loopback address, and the job has {host.num_nodes} machines."
        return [_finding(ADDRESS, text, message, f"Write one of {', '.join(_outer(host))}.")]
    return []


def _interface(host: Host, name: str, text: str) -> list[Finding | NotChecked]:
    known = host.network.interfaces
    if not known:
        return [not_checked(RULE, "the interfaces of this machine cannot be read here.", partly=True)]
    chosen = chosen_interfaces(text, known, is_exact=name in EXACT)
    if not chosen:
        message = f"{name}={text} names no interface of this machine."
        return [_finding(name, text, message, f"Write one of {', '.join(known)}, or unset {name}.")]
    if host.num_nodes > 1 and set(chosen) == {"lo"}:
        message = f"{name}={text} is the loopback interface, and the job has {host.num_nodes} machines."
        return [
            _finding(name, text, message, f"Write the interface that leads to the other machines, or unset {name}.")
        ]
    return []


def chosen_interfaces(text: str, known: tuple[str, ...], *, is_exact: bool = False) -> list[str]:
    """Return the interfaces that a setting chooses."""
    is_negative = text.startswith("^") and not is_exact
    rest = text.removeprefix("^") if is_negative else text
    by_name = is_exact or rest.startswith("=")
    words = [word.strip() for word in rest.removeprefix("=").split(",") if word.strip()]
    named = [one for one in known if any(one == word if by_name else one.startswith(word) for word in words)]
    return [one for one in known if one not in named] if is_negative else named


def _outer(host: Host) -> list[str]:
    return sorted(one for one in host.network.own if not one.startswith(("127.", "::1", "fe80:")))


def _finding(name: str, value: str, message: str, action: str) -> Finding:
    return RULE.finding(
        message,
        evidence={"variable": name, "value": value},
        why="The ranks of this machine cannot be reached, or the library finds no interface at all.",
        action=action,
    )
