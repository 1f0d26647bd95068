"""`pod_faults`: rules of version 1.2, the form for super pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from jumar.advise.doctor.rank_table.fault import Fault
from jumar.advise.doctor.rank_table.read import Server, Table
from jumar.advise.doctor.rank_table.values import number_of
from jumar.base.findings import Severity


def pod_faults(table: Table) -> Iterator[Fault]:
    """Yield the broken rules about super pods."""
    pods = table.fields.get("super_pod_list")
    if table.fields.get("version") != "1.2":
        if pods:
            yield Fault(
                message=f"super_pod_list belongs to version 1.2; version is {table.fields.get('version')!r}.",
                action='Write "version": "1.2", or leave super_pod_list out.',
            )
        return
    if not isinstance(pods, list) or not pods or not all(isinstance(pod, dict) for pod in pods):
        yield Fault(message="super_pod_list must be a list of super pods in version 1.2.", action="Add super_pod_list.")
        return
    servers = {str(server.fields.get("server_id")): server for server in table.servers}
    members = [(str(pod.get("super_pod_id")), _members(pod)) for pod in pods]
    for name, number in Counter(name for name, _ in members).items():
        if number > 1:
            yield Fault(message=f"super_pod_id {name!r} stands twice.", action="Give each super pod its own id.")
    yield from _membership_faults(servers, members)
    for name, held in members:
        yield from _id_faults(name, [servers[one] for one in held if one in servers])


def _members(pod: dict[str, Any]) -> list[str]:
    items = pod.get("server_list")
    return [str(item.get("server_id")) for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _membership_faults(servers: dict[str, Server], members: list[tuple[str, list[str]]]) -> Iterator[Fault]:
    places = Counter(name for _, held in members for name in held)
    for name, number in places.items():
        if name not in servers:
            yield Fault(
                message=f"super_pod_list names the server {name!r}, which is not in server_list.",
                action="Write the server_id as in server_list.",
            )
        elif number > 1:
            yield Fault(message=f"Server {name!r} is in {number} super pods.", action="Put each server into one.")
    for name in servers:
        if name not in places:
            yield Fault(message=f"Server {name!r} is in no super pod.", action="Add it to its super pod.")


def _id_faults(pod: str, servers: list[Server]) -> Iterator[Fault]:
    ids = []
    for server in servers:
        for device in server.devices:
            value = device.fields.get("super_device_id")
            if number_of(value) is None:
                yield Fault(
                    message=f"{device.place}.super_device_id must be a whole number from 0; got {value!r}.",
                    action="Write the SDID that `npu-smi info -t spod-info -i 0 -c 0` prints.",
                )
            else:
                ids.append(number_of(value))
    for number, count in Counter(ids).items():
        if count > 1:
            yield Fault(
                message=f"super_device_id {number} stands twice in super pod {pod!r}.",
                action="Write each device's own id.",
                severity=Severity.ERROR,
            )
