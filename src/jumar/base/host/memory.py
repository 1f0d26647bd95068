"""`memory`: what this machine, or the container where that has less, has left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jumar.base.host.groups import ROOT, groups, read_text

_UNLIMITED_BYTES = 2**60
"""cgroup v1 writes "no limit" as a number near 2**63."""


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
    total_swap_bytes: int = 0
    commit_limit_bytes: int | None = None
    """What all programs may reserve together where the kernel promises no more (vm.overcommit_memory=2)."""
    committed_bytes: int | None = None

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
class Pressure:
    """Shares of the last minute, in percent, in which programs waited for memory."""

    some_percent: float
    """At least one program waited."""
    full_percent: float
    """All waited at once."""
    in_container: bool = False


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
        free_swap_bytes=sizes.get("SwapFree", 0), total_swap_bytes=sizes.get("SwapTotal", 0),
        commit_limit_bytes=sizes.get("CommitLimit"), committed_bytes=sizes.get("Committed_AS"),
    )  # fmt: skip


def pressure(root: Path = ROOT) -> Pressure | None:
    """Return how long programs waited for memory: of the innermost group that tells, else of the machine.

    None where the kernel does not tell. Source: Linux, Documentation/accounting/psi.rst.
    """
    files = [folder / "memory.pressure" for folder in reversed(groups(root, "memory"))]
    for file in (*files, root / "proc/pressure/memory"):
        shares = {}
        for line in read_text(file).splitlines():
            kind, _, rest = line.partition(" ")
            values = dict(pair.split("=", 1) for pair in rest.split() if "=" in pair)
            try:
                shares[kind] = float(values["avg60"])
            except (KeyError, ValueError):
                continue
        if "some" in shares:
            return Pressure(
                some_percent=shares["some"], full_percent=shares.get("full", 0.0), in_container=file in files
            )
    return None


def _meminfo(root: Path) -> dict[str, int]:
    """Return the lines of /proc/meminfo in bytes."""
    sizes = {}
    for line in read_text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * 1024
    return sizes


def _memory_limits(root: Path) -> Iterator[tuple[int, int | None]]:
    """Yield the limit of each control group that holds this process, and what the group uses without file caches."""
    for folder in groups(root, "memory"):
        for limit_name, used_name, cached_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = read_text(folder / limit_name), read_text(folder / used_name)
            if limit.isdigit() and int(limit) < _UNLIMITED_BYTES:
                cached = _statistic(folder, cached_name)
                yield int(limit), max(0, int(used) - cached) if used.isdigit() else None


def _statistic(folder: Path, name: str) -> int:
    """Return a line of a group's memory.stat: here the cached files that the kernel gives up when asked."""
    words = (line.split() for line in read_text(folder / "memory.stat").splitlines())
    return next((int(pair[1]) for pair in words if len(pair) == 2 and pair[0] == name and pair[1].isdigit()), 0)
