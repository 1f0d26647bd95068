"""The machine under this process: memory, cores and disks, of the container where that has less.

`memory`, `cores` and `disk` read only. None stands for "the system does not tell". `root` stands in front of
/proc and /sys, so that a test can lay out a machine in a folder.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/")
_UNLIMITED_BYTES = 2**60
"""cgroup v1 writes "no limit" as a number near 2**63."""
_DEFAULT_PERIOD = "100000"

_THROTTLED = {"throttled_usec": 1e3, "throttled_time": 1e6}
"""Lines of cpu.stat, and how many of their units are a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of this machine, or of the container where that has less."""

    total_bytes: int | None = None
    """What this process and its neighbours in the container may have in all."""
    available_bytes: int | None = None
    """What is left of it, with the caches that the kernel gives back."""
    machine_bytes: int | None = None
    limit_bytes: int | None = None
    """Limit of the container; None when there is none or it is unknown."""
    used_bytes: int | None = None
    """What the container uses, without its file cache; None without a limit."""
    free_swap_bytes: int = 0

    @property
    def allocatable_bytes(self) -> int | None:
        """What a program can still allocate: the available bytes, and free swap as far as the container allows."""
        if self.available_bytes is None:
            return None
        with_swap = self.available_bytes + self.free_swap_bytes
        return with_swap if self._left is None else min(with_swap, self._left)

    @property
    def _left(self) -> int | None:
        return None if self.limit_bytes is None or self.used_bytes is None else self.limit_bytes - self.used_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Processors: those of the machine, those this process may use, and how much of their time it may have."""

    num_cores: int | None = None
    num_usable: int | None = None
    """Cores in this process's affinity mask."""
    quota: float | None = None
    """Cores' worth of time that the container may use; infinity when unlimited, None when unknown."""

    @property
    def effective(self) -> float | None:
        """Cores' worth of time that this process can really have; None when nothing is known."""
        known = [float(value) for value in (self.num_usable or self.num_cores, self.quota) if value is not None]
        return min(known, default=None)

    @property
    def count(self) -> int:
        """Whole cores that this process can really have, at least 1: what to start workers and threads for."""
        effective = self.effective
        return 1 if effective is None or math.isinf(effective) else max(1, math.floor(effective))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system that holds `path`."""

    path: Path
    total_bytes: int
    free_bytes: int


def memory(root: Path = ROOT) -> Memory:
    """Return the memory of the machine and of the container."""
    sizes = _meminfo(root)
    machine, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    total, limit, used = machine, None, None
    for limit_now, used_now in _memory_limits(root):
        total = limit_now if total is None else min(total, limit_now)
        left = limit_now if used_now is None else max(0, limit_now - used_now)
        available = left if available is None else min(available, left)
        if limit is None or left < limit - (used or 0):
            limit, used = limit_now, used_now
    return Memory(
        total_bytes=total, available_bytes=available, machine_bytes=machine, limit_bytes=limit, used_bytes=used,
        free_swap_bytes=sizes.get("SwapFree", 0),
    )  # fmt: skip


def cores(root: Path = ROOT) -> Cores:
    """Return the cores of the machine, of this process's affinity, and the container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    return Cores(
        num_cores=os.cpu_count(), num_usable=len(affinity(0)) if affinity is not None else None, quota=_quota(root)
    )


def usable_cores(root: Path = ROOT) -> int:
    """Return how many workers or threads this process can really run side by side, at least 1."""
    return cores(root).count


def runnable(root: Path = ROOT) -> int | None:
    """Return how many threads of the whole machine run or want to at this moment; None where the system does not tell.

    This thread is one of them. Source: proc(5), the fourth field of /proc/loadavg.
    """
    words = _read(root / "proc/loadavg").split()
    number = words[3].partition("/")[0] if len(words) > 3 else ""
    return int(number) if number.isdigit() else None


def throttled_ms(root: Path = ROOT) -> float | None:
    """Return for how long the container's quota has stopped its threads so far; None without a quota or its figure.

    Source: cpu.stat of cgroup v2 (`throttled_usec`) and v1 (`throttled_time`, nanoseconds).
    """
    if not math.isfinite(_quota(root) or math.inf):
        return None
    for folder in (*_groups(root, "cpu"), *_groups(root, "cpu,cpuacct")):
        for line in _read(folder / "cpu.stat").splitlines():
            name, _, number = line.partition(" ")
            if name in _THROTTLED and number.isdigit():
                return int(number) / _THROTTLED[name]
    return None


def disk(path: Path) -> Disk | None:
    """Return the size of the file system that holds `path`; None when it cannot be asked."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return Disk(path=path, total_bytes=usage.total, free_bytes=usage.free)


def disks(folders: Iterable[Path]) -> dict[int, list[Disk]]:
    """Return the disks under `folders`, by file system; folders that cannot be asked are left out."""
    found: dict[int, list[Disk]] = {}
    for folder in folders:
        try:
            device = folder.stat().st_dev
        except OSError:
            continue
        here = disk(folder)
        if here is not None:
            found.setdefault(device, []).append(here)
    return found


def _meminfo(root: Path) -> dict[str, int]:
    """Return the lines of /proc/meminfo in bytes."""
    sizes = {}
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * 1024
    return sizes


def _memory_limits(root: Path) -> Iterator[tuple[int, int | None]]:
    """Yield the limit of each control group that holds this process, and what the group uses without file caches."""
    for folder in _groups(root, "memory"):
        for limit_name, used_name, cached_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _read(folder / limit_name), _read(folder / used_name)
            if limit.isdigit() and int(limit) < _UNLIMITED_BYTES:
                cached = _statistic(folder, cached_name)
                yield int(limit), max(0, int(used) - cached) if used.isdigit() else None


def _statistic(folder: Path, name: str) -> int:
    """Return a line of a group's memory.stat: here the cached files that the kernel gives up when asked."""
    words = (line.split() for line in _read(folder / "memory.stat").splitlines())
    return next((int(pair[1]) for pair in words if len(pair) == 2 and pair[0] == name and pair[1].isdigit()), 0)


def _quota(root: Path) -> float | None:
    """Return the least quota of the groups that hold this process; infinity without one, None when unknown."""
    found = []
    for folder in (*_groups(root, "cpu"), *_groups(root, "cpu,cpuacct")):
        modern = _read(folder / "cpu.max")
        if modern:
            quota, _, period = modern.partition(" ")
            found.append(math.inf if quota == "max" else _ratio(quota, period or _DEFAULT_PERIOD))
        old = _read(folder / "cpu.cfs_quota_us")
        if old:
            period = _read(folder / "cpu.cfs_period_us") or _DEFAULT_PERIOD
            found.append(math.inf if old.startswith("-") else _ratio(old, period))
    return min((quota for quota in found if quota is not None), default=None)


def _ratio(quota: str, period: str) -> float | None:
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None


def _groups(root: Path, controller: str) -> tuple[Path, ...]:
    """Return the folders of the control groups that hold this process; of this machine they are looked up once."""
    return _groups_here(controller) if root == ROOT else _find_groups(root, controller)


@cache
def _groups_here(controller: str) -> tuple[Path, ...]:
    return _find_groups(ROOT, controller)


def _find_groups(root: Path, controller: str) -> tuple[Path, ...]:
    """Return the folders of the control groups that hold this process, the outermost first.

    cgroup v2 has one tree at /sys/fs/cgroup, v1 one for each controller below it. Within a container the tree's
    top is usually the container's own group; on a host /proc/self/cgroup names the group.
    """
    own = {controller: "", "": ""}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        own |= dict.fromkeys([names, *names.split(",")], path.strip("/"))
    tree = root / "sys/fs/cgroup"
    folders = []
    for top, path in ((tree, own[""]), (tree / controller, own[controller])):
        parts = [part for part in path.split("/") if part]
        if ".." in parts:
            parts = []  # the group lies outside of what this container may see
        folders += [top.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return tuple(folder for folder in folders if folder.is_dir())


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
