"""`read_table`: a rank table as servers with devices, whichever of its forms it has.

Forms: 1.0 (`server_list`), 1.2 (with `super_pod_list`), the older `group_list`, `server_group_list` of several jobs.
Source: HCCL user guide of CANN, "rank table"; hccl.json of MindCluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.advise.doctor.rank_table.fault import Fault

_LISTS = ("server_list", "group_list", "server_group_list")
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a server, with its fields as they stand in the file."""

    place: str
    """Where in the file: `server_list[0].device[1]`."""
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server."""

    place: str
    fields: Mapping[str, Any]
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One rank table: of a job, or one group of a file with several."""

    fields: Mapping[str, Any]
    servers: tuple[Server, ...]
    is_old: bool = False
    """The older form: no version, `instance_list` with one device each."""


def is_rank_table(path: Path) -> bool:
    """Tell whether a file is a rank table by its content: JSON with a list of servers."""
    try:
        if path.suffix.lower() != ".json" or path.stat().st_size > _MOST_BYTES:
            return False
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(f'"{name}"' in text for name in _LISTS) and ('"rank_id"' in text or '"device"' in text)


def read_table(text: str) -> tuple[list[Table], list[Fault]]:
    """Return the tables in a file, and what is wrong with its form."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [], [_no_json(text, str(error))]
    if not isinstance(found, dict) or not any(name in found for name in _LISTS):
        return [], [Fault(message="It has no server_list.", action="Write it anew, for example with hccl_tools.py.")]
    faults: list[Fault] = []
    if isinstance(found.get("server_group_list"), list):
        groups = [group for group in found["server_group_list"] if isinstance(group, dict)]
        shared = {name: found[name] for name in ("version", "status") if name in found}
        return [_table({**shared, **group}, faults) for group in groups], faults
    if "group_list" in found and "server_list" not in found:
        return [_old_table(found, faults)], faults
    return [_table(found, faults)], faults


def _no_json(text: str, why: str) -> Fault:
    if any(line.strip().startswith("//") or " //" in line for line in text.splitlines()):
        return Fault(message=f"It is no JSON: {why}. It has comments (//).", action="Delete the comments.")
    return Fault(message=f"It is no JSON: {why}.", action="Mend the file at that place, or write it anew.")


def _items(owner: Mapping[str, Any], name: str, place: str, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    items = owner.get(name)
    where = f"{place}{name}"
    if not isinstance(items, list) or not items:
        faults.append(Fault(message=f"{where} must be a list that is not empty.", action=f"Fill in {where}."))
        return
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield f"{where}[{number}]", item
        else:
            faults.append(Fault(message=f"{where}[{number}] must be an object; got {item!r}.", action="Mend it."))


def _table(found: Mapping[str, Any], faults: list[Fault]) -> Table:
    servers = []
    for place, item in _items(found, "server_list", "", faults):
        inner = _items(item, "device", f"{place}.", faults)
        devices = tuple(Device(place=inner_place, fields=fields) for inner_place, fields in inner)
        servers.append(Server(place=place, fields=item, devices=devices))
    return Table(fields=found, servers=tuple(servers))


def _old_table(found: Mapping[str, Any], faults: list[Fault]) -> Table:
    devices: dict[str, list[Device]] = {}
    for place, group in _items(found, "group_list", "", faults):
        for inner, instance in _items(group, "instance_list", f"{place}.", faults):
            for at, device in _items(instance, "devices", f"{inner}.", faults):
                fields = {**device, "rank_id": instance.get("rank_id")}
                devices.setdefault(str(instance.get("server_id")), []).append(Device(place=at, fields=fields))
    servers = (
        Server(place=f"server {name}", fields={"server_id": name}, devices=tuple(held))
        for name, held in devices.items()
    )
    return Table(fields={**found, "server_count": None}, servers=tuple(servers), is_old=True)
