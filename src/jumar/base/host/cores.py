"""`cores`: the processors, those that this process may use, and how much of their time it may have."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from jumar.base.host.groups import ROOT, groups, read_text

_DEFAULT_PERIOD = "100000"

_THROTTLED = {"throttled_usec": 1e3, "throttled_time": 1e6}
"""Lines of cpu.stat, and how many of their units are a millisecond."""


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
    words = read_text(root / "proc/loadavg").split()
    number = words[3].partition("/")[0] if len(words) > 3 else ""
    return int(number) if number.isdigit() else None


def throttled_ms(root: Path = ROOT) -> float | None:
    """Return for how long the container's quota has stopped its threads so far; None without a quota or its figure.

    Source: cpu.stat of cgroup v2 (`throttled_usec`) and v1 (`throttled_time`, nanoseconds).
    """
    if not math.isfinite(_quota(root) or math.inf):
        return None
    for folder in (*groups(root, "cpu"), *groups(root, "cpu,cpuacct")):
        for line in read_text(folder / "cpu.stat").splitlines():
            name, _, number = line.partition(" ")
            if name in _THROTTLED and number.isdigit():
                return int(number) / _THROTTLED[name]
    return None


def _quota(root: Path) -> float | None:
    """Return the least quota of the groups that hold this process; infinity without one, None when unknown."""
    found = []
    for folder in (*groups(root, "cpu"), *groups(root, "cpu,cpuacct")):
        modern = read_text(folder / "cpu.max")
        if modern:
            quota, _, period = modern.partition(" ")
            found.append(math.inf if quota == "max" else _ratio(quota, period or _DEFAULT_PERIOD))
        old = read_text(folder / "cpu.cfs_quota_us")
        if old:
            period = read_text(folder / "cpu.cfs_period_us") or _DEFAULT_PERIOD
            found.append(math.inf if old.startswith("-") else _ratio(old, period))
    return min((quota for quota in found if quota is not None), default=None)


def _ratio(quota: str, period: str) -> float | None:
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
