"""JM836 rendezvous.

## What it does
Looks up MASTER_ADDR, compares it with this machine's addresses on the node of rank 0, and looks whether MASTER_PORT is
a port, is free there, and answers on the other nodes (for 2 s).

## Why it matters
Every rank connects to this place first. Where it is wrong, all of them wait until the timeout of 30 minutes.

## Example
```
export MASTER_ADDR=127.0.0.1       # on two nodes
```

## Use instead
```
export MASTER_ADDR=192.168.0.11 MASTER_PORT=29500
```

## Fix safety
No edit is made.

## References
PyTorch, torch.distributed, "environment variable initialization".
"""

from __future__ import annotations

from jumar.advise.checks import NotChecked, Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.parts import Rendezvous
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM836",
    name="rendezvous",
    summary="The ranks cannot meet at MASTER_ADDR and MASTER_PORT.",
    severity=Severity.ERROR,
    doc=__doc__,
)

NODE_VARIABLES = ("NODE_RANK", "GROUP_RANK", "RANK")


def find(host: Host) -> Outcomes:
    """Judge address and port."""
    place = host.network.rendezvous
    if place is None:
        return _missing(host)
    return [*_port(host, place), *_address(host, place), *_here(host, place)]


def _missing(host: Host) -> list[Finding]:
    if host.value("RANK") is None or (host.number("WORLD_SIZE") or 1) < 2:
        return []
    return [
        RULE.finding(
            f"RANK and WORLD_SIZE={host.value('WORLD_SIZE')} are set, and MASTER_ADDR is not.",
            evidence={"variable": "MASTER_ADDR"},
            why="env:// asks for all four: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.",
            action="Set MASTER_ADDR to the address of the machine with rank 0, or start with torchrun.",
        )
    ]


def _port(host: Host, place: Rendezvous) -> list[Finding]:
    text = host.value("MASTER_PORT")
    if place.port is not None or (text is None and host.value("RANK") is None):
        return []
    return [
        RULE.finding(
            f"MASTER_PORT must be a port from 1 to 65535; got {text!r}."
            if text is not None
            else "MASTER_PORT is not set.",
            evidence={"variable": "MASTER_PORT", "value": text},
            action="export MASTER_PORT=29500",
        )
    ]


def _address(host: Host, place: Rendezvous) -> list[Finding | NotChecked]:
    if place.resolved is None:
        return [
            not_checked(RULE, f"the name server did not answer for MASTER_ADDR={place.address} in time.", partly=True)
        ]
    if not place.resolved:
        return [
            RULE.finding(
                f"MASTER_ADDR={place.address} stands for no address here.",
                evidence={"variable": "MASTER_ADDR", "value": place.address},
                why="The ranks of this machine cannot find rank 0.",
                action="Write the address of the machine with rank 0, or add the name to /etc/hosts on every machine.",
            )
        ]
    if host.num_nodes > 1 and all(_is_loopback(one) for one in place.resolved):
        return [
            RULE.finding(
                f"MASTER_ADDR={place.address} is this machine itself for each of {host.num_nodes} machines.",
                evidence={"variable": "MASTER_ADDR", "value": place.address, "nodes": host.num_nodes},
                why="Every machine then waits for the others at its own loopback address.",
                action="Write the address of the machine with rank 0 that the others can reach.",
            )
        ]
    return []


def _here(host: Host, place: Rendezvous) -> list[Finding | NotChecked]:
    node = next((host.number(name) for name in NODE_VARIABLES if host.number(name) is not None), None)
    if node is None or not place.resolved:
        return []
    if node == 0:
        return _at_rank_0(host, place)
    if place.answers is False:
        return [
            RULE.finding(
                f"Nothing answers at {place.address}:{place.port}.",
                severity=Severity.WARNING,
                evidence={"address": place.address, "port": place.port},
                why="Rank 0 is not started yet, or a firewall or a wrong address is between.",
                action="Start rank 0 first and try again; then check the firewall of its machine for this port.",
                confidence="possible",
            )
        ]
    return []


def _at_rank_0(host: Host, place: Rendezvous) -> list[Finding | NotChecked]:
    found: list[Finding | NotChecked] = []
    own = host.network.own
    if not own:
        found.append(not_checked(RULE, "the addresses of this machine cannot be read here.", partly=True))
    elif not set(place.resolved or ()) & own:
        found.append(
            RULE.finding(
                f"This is the machine of rank 0, and MASTER_ADDR={place.address} is none of its addresses.",
                severity=Severity.WARNING,
                evidence={"address": place.address, "resolved": list(place.resolved or ())},
                why="The other ranks look for rank 0 elsewhere. A service address that leads here is fine.",
                action="Write an address of this machine (hostname -I), or start rank 0 there.",
                confidence="likely",
            )
        )
    if place.port is not None and place.port in (host.network.listening or ()):
        found.append(
            RULE.finding(
                f"MASTER_PORT={place.port} is taken on this machine.",
                severity=Severity.WARNING,
                evidence={"variable": "MASTER_PORT", "value": place.port},
                why="A run that is still there, or another program, listens on it.",
                action="End it (ss -ltnp shows which), or choose another port on all machines.",
            )
        )
    return found


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
