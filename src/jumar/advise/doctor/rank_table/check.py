"""`faults_of`: every rule that a rank table breaks. Source: HCCL user guide of CANN, "rank table"."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from jumar.advise.doctor.rank_table.fault import Fault
from jumar.advise.doctor.rank_table.pods import pod_faults
from jumar.advise.doctor.rank_table.read import Server, Table, read_table
from jumar.advise.doctor.rank_table.values import address_of, number_of, text_faults
from jumar.base.findings import Severity
from jumar.base.text import listing

Item = TypeVar("Item")
VERSIONS = ("1.0", "1.2")
_LONGEST_ID = 63
_MOST_NAMED = 6


def faults_of(text: str, environ: Mapping[str, str] | None = None) -> list[Fault]:
    """Return the broken rules of a rank table; `environ` may hold RANK_SIZE and RANK_ID."""
    tables, faults = read_table(text)
    for table in tables:
        faults += _head_faults(table)
        faults += _server_faults(table)
        for server in table.servers:
            faults += _device_faults(server)
        faults += _rank_faults(table)
        faults += _address_faults(table)
        if not table.is_old:
            faults += pod_faults(table)
    if len(tables) == 1 and environ:
        faults += _environment_faults(tables[0], environ)
    return faults


def _head_faults(table: Table) -> Iterator[Fault]:
    status = table.fields.get("status")
    if status != "completed":
        yield Fault(
            message=f'status must be "completed"; got {status!r}.',
            action="Wait until the scheduler has filled the table in. In a table of your own write completed.",
        )
    if table.is_old:
        return
    version = table.fields.get("version")
    if version not in VERSIONS:
        yield Fault(
            message=f"version must be 1.0, or 1.2 for super pods; got {version!r}.",
            action='Write "version": "1.0", or "1.2" with super_pod_list.',
        )
    count = table.fields.get("server_count")
    yield from text_faults("server_count", count)
    if number_of(count) != len(table.servers):
        yield Fault(
            message=f"server_count is {count!r}, and server_list has {len(table.servers)}.",
            action=f'Write "server_count": "{len(table.servers)}", or add the servers that are missing.',
        )


def _server_faults(table: Table) -> Iterator[Fault]:
    ids = [server.fields.get("server_id") for server in table.servers]
    for server, name in zip(table.servers, ids, strict=True):
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            message = f"{server.place}.server_id must be a text of 1 to {_LONGEST_ID} characters; got {name!r}."
            yield Fault(message=message, action="Give each server a name of its own.")
        host = server.fields.get("host_ip")
        if host not in (None, "") and address_of(host) is None:
            yield Fault(message=f"{server.place}.host_ip is no address: {host!r}.", action="Write the host's address.")
    for name in _doubled(ids):
        yield Fault(message=f"server_id {name!r} stands twice.", action="Give each server a name of its own.")
    hosts = [server.fields.get("host_ip") for server in table.servers]
    for name in _doubled(host for host in hosts if host):
        yield Fault(message=f"host_ip {name} stands twice.", action="Write each server's own address.")
    numbers = {len(server.devices) for server in table.servers}
    if len(numbers) > 1:
        told = ", ".join(map(str, sorted(numbers)))
        yield Fault(
            message=f"The servers have different numbers of devices ({told}).",
            action="List the same number of devices for each server, unless the job is meant so.",
            severity=Severity.WARNING,
        )


def _device_faults(server: Server) -> Iterator[Fault]:
    ids = []
    for device in server.devices:
        for name in ("device_id", "rank_id"):
            yield from text_faults(f"{device.place}.{name}", device.fields.get(name))
        number = number_of(device.fields.get("device_id"))
        if number is None:
            value = device.fields.get("device_id")
            message = f"{device.place}.device_id must be a whole number from 0; got {value!r}."
            yield Fault(message=message, action="Write the device's number as in /dev/davinci0.")
        else:
            ids.append(number)
        for name in ("device_port", "host_port", "backup_device_port"):
            port = device.fields.get(name)
            if port not in (None, "") and not 0 < (number_of(port) or 0) < 65536:
                yield Fault(message=f"{device.place}.{name} is no port: {port!r}.", action="Write 1 to 65535.")
    for number in _doubled(ids):
        yield Fault(
            message=f"device_id {number} stands twice in {server.place}.", action="List each device of a server once."
        )
    ports = [device.fields.get("host_port") for device in server.devices]
    for port in _doubled(port for port in ports if port):
        yield Fault(
            message=f"host_port {port} stands twice in {server.place}.",
            action="Give each rank of a server a host_port of its own.",
        )


def _rank_faults(table: Table) -> Iterator[Fault]:
    ranks = []
    for server in table.servers:
        for device in server.devices:
            rank = number_of(device.fields.get("rank_id"))
            if rank is None:
                value = device.fields.get("rank_id")
                message = f"{device.place}.rank_id must be a whole number from 0; got {value!r}."
                yield Fault(message=message, action="Number the ranks from 0.")
            else:
                ranks.append(rank)
    doubled = _doubled(ranks)
    if doubled:
        named = listing(map(str, doubled), _MOST_NAMED)
        yield Fault(message=f"rank_id stands twice: {named}.", action="Number the ranks from 0, each once.")
    missing = sorted(set(range(len(ranks))) - set(ranks))
    if missing and not doubled:
        named = listing(map(str, missing), _MOST_NAMED)
        yield Fault(
            message=f"The {len(ranks)} ranks must be 0 to {len(ranks) - 1}; missing: {named}.",
            action="Number the ranks from 0 without a gap.",
        )


def _address_faults(table: Table) -> Iterator[Fault]:
    addresses: list[str] = []
    versions = set()
    for server in table.servers:
        for device in server.devices:
            for name in ("device_ip", "backup_device_ip"):
                value = device.fields.get(name)
                if value in (None, ""):
                    continue
                parsed = address_of(value)
                if parsed is None:
                    action = (
                        f"Write the address of the device's own network (hccn_tool -i {_of(device.fields)} -ip -g)."
                    )
                    yield Fault(message=f"{device.place}.{name} is no address: {value!r}.", action=action)
                elif name == "device_ip":
                    addresses.append(str(parsed))
                    versions.add(parsed.version)
            needs = len(table.servers) > 1 and table.fields.get("version") != "1.2"
            if needs and device.fields.get("device_ip") in (None, ""):
                action = f"Add it: hccn_tool -i {_of(device.fields)} -ip -g on that server."
                yield Fault(message=f"{device.place} has no device_ip; several servers need one.", action=action)
    for address in _doubled(addresses):
        yield Fault(message=f"device_ip {address} stands twice.", action="Write each device's own address.")
    if len(versions) > 1:
        yield Fault(message="device_ip are IPv4 and IPv6 in one table.", action="Use one kind for all devices.")
    yield from _subnet_faults(table)


def _of(fields: Mapping[str, object]) -> object:
    return fields.get("device_id", 0)


def _subnet_faults(table: Table) -> Iterator[Fault]:
    """Devices of one number must reach each other from server to server; other subnets need a router between them."""
    nets: dict[int, set[str]] = {}
    for server in table.servers:
        for device in server.devices:
            parsed, number = address_of(device.fields.get("device_ip")), number_of(device.fields.get("device_id"))
            if isinstance(parsed, ipaddress.IPv4Address) and number is not None:
                nets.setdefault(number, set()).add(str(ipaddress.IPv4Network(f"{parsed}/24", strict=False)))
    apart = {number: found for number, found in nets.items() if len(found) > 1}
    if apart:
        number, found = min(apart.items())
        yield Fault(
            message=f"device_id {number} is in {len(found)} subnets: {listing(sorted(found), _MOST_NAMED)}.",
            action=f"Check that they reach each other: hccn_tool -i {number} -ping -g address ADDRESS on a server.",
            severity=Severity.ADVICE,
        )


def _environment_faults(table: Table, environ: Mapping[str, str]) -> Iterator[Fault]:
    ranks = {number_of(device.fields.get("rank_id")) for server in table.servers for device in server.devices}
    size, rank = number_of(environ.get("RANK_SIZE")), number_of(environ.get("RANK_ID"))
    if size is not None and size > len(ranks):
        yield Fault(
            message=f"RANK_SIZE is {size}, and the table has {len(ranks)} ranks.",
            action=f"export RANK_SIZE={len(ranks)}, or name the table of this job.",
        )
    if rank is not None and rank not in ranks:
        yield Fault(message=f"RANK_ID {rank} is not in the table.", action="Name the table of this job.")


def _doubled(items: Iterable[Item]) -> list[Item]:
    return [item for item, number in Counter(items).items() if number > 1]
