"""Who else computes on this machine, and who watches this process.

Both change what is measured: a program beside it takes cores, caches and memory bandwidth, a profiler makes
every call longer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LEAST_SHARE = 0.2
"""A process that takes less of one core than this is not named."""
_SWITCHES = {
    "PROFILING_MODE": "the vendor's profiler (PROFILING_MODE)",
    "GE_PROFILING_TO_STD_OUT": "the vendor's graph profiler (GE_PROFILING_TO_STD_OUT)",
    "KINETO_USE_DAEMON": "PyTorch's profiling daemon (KINETO_USE_DAEMON)",
}
_OFF = {"", "0", "false", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A process that computes and does not belong to this run."""

    pid: int
    name: str
    share: float
    """Of one core, over the time it was watched: 2.0 is two cores."""


def computing(proc: Path, watch_s: float) -> tuple[Neighbour, ...]:
    """Return the processes that took at least `LEAST_SHARE` of a core, busiest first; not this one's family."""
    before, start = _readings(proc), time.monotonic()
    time.sleep(watch_s)
    after, elapsed = _readings(proc), max(time.monotonic() - start, 1e-3)
    family = _family(after)
    ticks_per_s = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    found = []
    for pid, (name, _, ticks) in after.items():
        if pid in family or pid not in before:
            continue
        share = (ticks - before[pid][2]) / ticks_per_s / elapsed
        if share >= LEAST_SHARE:
            found.append(Neighbour(pid=pid, name=name, share=share))
    return tuple(sorted(found, key=lambda one: -one.share))


_Reading = tuple[str, int, int]
"""Name, parent, processor ticks so far."""


def _readings(proc: Path) -> dict[int, _Reading]:
    found = {}
    try:
        folders = [entry for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return {}
    for folder in folders:
        reading = _reading(folder / "stat")
        if reading is not None:
            found[int(folder.name)] = reading
    return found


def _reading(path: Path) -> _Reading | None:
    """Read `proc(5)` stat: the name is in brackets and may hold anything; utime and stime are fields 14 and 15."""
    try:
        text = path.read_text("utf-8", errors="replace")
        start, end = text.index("("), text.rindex(")")
        fields = text[end + 2 :].split()
        return text[start + 1 : end], int(fields[1]), int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):  # it ended meanwhile
        return None


def _family(readings: Mapping[int, _Reading]) -> set[int]:
    """Return this process, those it descends from, and those that descend from it."""
    family, parent = {os.getpid()}, os.getpid()
    children: dict[int, list[int]] = {}
    for pid, (_, above, _) in readings.items():
        children.setdefault(above, []).append(pid)
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        family.update(below)
        waiting += below
    while parent in readings and parent != readings[parent][1]:
        parent = readings[parent][1]
        family.add(parent)
    return family


def profilers(environ: Mapping[str, str], proc: Path) -> tuple[str, ...]:
    """Return what watches this process, in words; empty when nothing is seen to."""
    found = [words for name, words in _SWITCHES.items() if environ.get(name, "").strip().lower() not in _OFF]
    if sys.getprofile() is not None:
        found.append("a Python profiler (sys.setprofile)")
    if sys.gettrace() is not None:
        found.append("a Python tracer or debugger (sys.settrace)")
    tracer = _tracer(proc / "self" / "status")
    if tracer:
        found.append(f"process {tracer}, which traces this one")
    torch = sys.modules.get("torch")
    if torch is not None and torch._C._autograd._profiler_enabled():
        found.append("PyTorch's profiler")
    return tuple(found)


def _tracer(status: Path) -> int:
    try:
        lines = status.read_text("utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("TracerPid:")).split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
