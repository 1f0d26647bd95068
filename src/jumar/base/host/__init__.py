"""The machine under this process: memory, cores and disks, of the container where that has less.

`memory`, `cores`, `disk` and `pressure` read only. None: "the system does not tell". `root` stands in front of
/proc and /sys, so that a test can lay out a machine in a folder.
"""

from __future__ import annotations

from jumar.base.host.cores import Cores, cores, runnable, throttled_ms, usable_cores
from jumar.base.host.disk import Disk, disk, disks
from jumar.base.host.groups import ROOT, read_text
from jumar.base.host.memory import Memory, Pressure, memory, pressure

__all__ = [
    "ROOT",
    "Cores",
    "Disk",
    "Memory",
    "Pressure",
    "cores",
    "disk",
    "disks",
    "memory",
    "pressure",
    "read_text",
    "runnable",
    "throttled_ms",
    "usable_cores",
]
