"""`survey_network`: this machine's addresses, names and ports, and the place where the ranks meet.

Addresses are read from /proc/net. Only where MASTER_ADDR is set, its name is looked up and a connection is tried.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from jumar.advise.doctor.machine.parts import Network, Rendezvous
from jumar.base.host import read_text

LOOK_UP_S, CONNECT_S = 3.0, 2.0
_LISTEN = "0A"
_RANKS = ("NODE_RANK", "GROUP_RANK", "RANK")
"""Of these the first that is set says whether rank 0 is on this machine."""
Resolve = Callable[[str], tuple[str, ...] | None]
Connect = Callable[[str, int], bool | None]


def survey_network(
    environ: Mapping[str, str], root: Path, *, resolve: Resolve | None = None, connect: Connect | None = None
) -> Network:
    """Read the network; `resolve` and `connect` stand in for the name server and the other machine in tests."""
    names = _hosts(read_text(root / "etc/hosts"))
    return Network(
        host_name=read_text(root / "proc/sys/kernel/hostname") or read_text(root / "etc/hostname"),
        addresses=_addresses(root),
        interfaces=_interfaces(root),
        names=names,
        listening=_listening(root),
        device_addresses=_device_addresses(root / "etc/hccn.conf"),
        rendezvous=_rendezvous(environ, resolve or look_up, connect or answers),
    )


def _rendezvous(environ: Mapping[str, str], resolve: Resolve, connect: Connect) -> Rendezvous | None:
    address = environ.get("MASTER_ADDR", "").strip()
    if not address:
        return None
    text = environ.get("MASTER_PORT", "").strip()
    port = int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None
    resolved = resolve(address)
    rank = next((text for name in _RANKS if (text := environ.get(name, "").strip())), "")
    asked = port is not None and bool(resolved) and rank not in ("", "0")
    return Rendezvous(
        address=address,
        port=port,
        resolved=resolved,
        answers=connect(address, port) if asked and port is not None else None,
    )


def look_up(name: str) -> tuple[str, ...] | None:
    """Return the addresses of a name, empty for a name that stands for none; None when no answer came in time."""
    told: queue.Queue[tuple[str, ...] | None] = queue.Queue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            told.put(None if error.errno == socket.EAI_AGAIN else ())
        except (OSError, UnicodeError):
            told.put(())
        else:
            told.put(tuple(dict.fromkeys(str(one[4][0]) for one in found)))

    threading.Thread(target=ask, daemon=True).start()
    try:
        return told.get(timeout=LOOK_UP_S)
    except queue.Empty:
        return None


def answers(address: str, port: int) -> bool | None:
    """Return whether a connection to a port is accepted within a short time."""
    try:
        with socket.create_connection((address, port), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def _hosts(text: str) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *aliases = line.partition("#")[0].split() or [""]
        for alias in aliases:
            names[alias] = (*names.get(alias, ()), address)
    return names


def _interfaces(root: Path) -> tuple[str, ...]:
    lines = read_text(root / "proc/net/dev").splitlines()[2:]
    return tuple(sorted(line.partition(":")[0].strip() for line in lines if ":" in line))


def _addresses(root: Path) -> dict[str, tuple[str, ...]]:
    """Return interface to addresses: local IPv4 addresses, put to the interface whose subnet holds them, and IPv6."""
    found: dict[str, tuple[str, ...]] = {}
    routes = _routes(read_text(root / "proc/net/route"))
    for address in _local(read_text(root / "proc/net/fib_trie")):
        parsed = ipaddress.ip_address(address)
        fits = [(net.prefixlen, name) for name, net in routes if parsed in net]
        name = "lo" if parsed.is_loopback else max(fits)[1] if fits else ""
        found[name] = (*found.get(name, ()), address)
    for line in read_text(root / "proc/net/if_inet6").splitlines():
        words = line.split()
        if len(words) == 6 and len(words[0]) == 32:
            six = str(ipaddress.IPv6Address(int(words[0], 16)))
            found[words[5]] = (*found.get(words[5], ()), six)
    return found


def _local(trie: str) -> list[str]:
    """Return the addresses that /proc/net/fib_trie marks as this host's."""
    found: dict[str, None] = {}
    last = ""
    for line in trie.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"] and last:
            found[last] = None
    return list(found)


def _routes(table: str) -> list[tuple[str, ipaddress.IPv4Network]]:
    routes = []
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[1] == "00000000":  # the default route holds every address
            continue
        net, mask = (ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(words[at]), "little")) for at in (1, 7))
        routes.append((words[0], ipaddress.IPv4Network(f"{net}/{mask}", strict=False)))
    return routes


def _listening(root: Path) -> frozenset[int] | None:
    files = [root / "proc/net/tcp", root / "proc/net/tcp6"]
    if not any(file.exists() for file in files):
        return None
    ports = set()
    for file in files:
        for line in read_text(file).splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == _LISTEN:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return frozenset(ports)


def _device_addresses(file: Path) -> dict[int, str] | None:
    if not file.exists():
        return None
    found: dict[int, str] = {}
    for line in read_text(file).splitlines():
        name, _, value = line.partition("=")
        kind, _, number = name.strip().lower().rpartition("_")
        if kind in ("address", "ipv6address") and number.isdigit():
            found.setdefault(int(number), value.strip())
    return found
