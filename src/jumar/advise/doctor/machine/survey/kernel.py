"""`survey_kernel`, `survey_limits` and `survey_clock`: settings of the kernel, limits of a process, the clock."""

from __future__ import annotations

import ctypes
import math
import os
import platform
from pathlib import Path

from jumar.advise.doctor.machine.parts import Clock, Kernel, Limits
from jumar.base.host import ROOT, read_text

_UNSYNCHRONISED = 0x40
"""STA_UNSYNC of adjtimex(2)."""
_STATUS_AT = 40 if ctypes.sizeof(ctypes.c_long) == 8 else 20
"""Where `status` stands in `struct timex`: after modes, offset, freq, maxerror and esterror."""
_TIMEX_BYTES = 512


def survey_kernel(root: Path) -> Kernel:
    """Read the kernel's settings."""
    ports = read_text(root / "proc/sys/net/ipv4/ip_local_port_range").split()
    reserved = root / "proc/sys/net/ipv4/ip_local_reserved_ports"
    return Kernel(
        huge_pages=_chosen(read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        overcommit=_number(read_text(root / "proc/sys/vm/overcommit_memory")),
        entropy=_number(read_text(root / "proc/sys/kernel/random/entropy_avail")),
        release=read_text(root / "proc/sys/kernel/osrelease"),
        local_ports=(int(ports[0]), int(ports[1])) if len(ports) == 2 and all(map(str.isdigit, ports)) else None,
        reserved_ports=port_ranges(read_text(reserved)) if reserved.exists() else None,
    )


def port_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of `60000-60015,50000`; parts that are none are passed over."""
    found = []
    for part in text.replace("\n", ",").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.append((int(first), int(last or first)))
    return tuple(found)


def open_file_limit() -> int | None:
    """Return the soft limit of open files, or None on a system without one."""
    limit = _limit("RLIMIT_NOFILE")
    return None if limit is None or math.isinf(limit) else int(limit)


def survey_limits() -> Limits:
    """Return the soft limits of this process, which the job inherits."""
    return Limits(
        processes=_limit("RLIMIT_NPROC"),
        locked_bytes=_limit("RLIMIT_MEMLOCK"),
        stack_bytes=_limit("RLIMIT_STACK"),
        core_bytes=_limit("RLIMIT_CORE"),
    )


def survey_clock(root: Path) -> Clock:
    """Return whether the kernel's clock is kept in step: its own word, else the mark that systemd leaves."""
    if root == ROOT and platform.system() == "Linux":
        status = _clock_status()
        if status is not None:
            return Clock(is_synchronised=not status & _UNSYNCHRONISED, source="adjtimex")
    if (root / "run/systemd/timesync/synchronized").exists():
        return Clock(is_synchronised=True, source="systemd-timesyncd")
    return Clock()


def _clock_status() -> int | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # modes is 0: it reads and sets nothing
        if library.adjtimex(buffer) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return int.from_bytes(buffer.raw[_STATUS_AT : _STATUS_AT + 4], "little")


def _limit(name: str) -> float | None:
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return None
    kind = getattr(resource, name, None)
    if kind is None or os.name != "posix":
        return None
    soft = resource.getrlimit(kind)[0]
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


def _chosen(text: str) -> str:
    """Return the word in brackets of `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0]


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
