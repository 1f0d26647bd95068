"""`survey_placement`: the cores and NUMA nodes that this process may use, and the nodes of the devices."""

from __future__ import annotations

from pathlib import Path

from jumar.advise.doctor.machine.parts import Placement
from jumar.base.host import read_text

_VENDOR = "0x19e5"
"""Huawei in the list of PCI vendors."""
_ACCELERATOR = "0x1200"
"""PCI class of processing accelerators."""


def survey_placement(root: Path) -> Placement:
    """Read the affinity of this process, the NUMA nodes and the devices' nodes."""
    status = dict(
        line.split(":", 1) for line in read_text(root / "proc/self/status").splitlines() if ":" in line
    )  # fmt: skip
    nodes = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        nodes[int(folder.name.removeprefix("node"))] = number_list(read_text(folder / "cpulist"))
    return Placement(
        allowed_cores=number_list(status.get("Cpus_allowed_list", "")),
        node_cores=dict(sorted(nodes.items())),
        allowed_nodes=number_list(status.get("Mems_allowed_list", "")),
        device_nodes=_device_nodes(root),
    )


def number_list(text: str) -> tuple[int, ...]:
    """Return the numbers of `0-3,8`."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _device_nodes(root: Path) -> dict[str, int]:
    found = {}
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        if read_text(folder / "vendor") == _VENDOR and read_text(folder / "class").startswith(_ACCELERATOR):
            node = read_text(folder / "numa_node")
            if node.isdigit():  # -1: the firmware does not tell
                found[folder.name.upper()] = int(node)
    return found
