"""What a child may do to the machine: its own process group, its own end, a limit of memory."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
"""`prctl(2)`: a signal when the parent dies."""


def become_child(log: int) -> None:
    """Leave the parent's terminal and group, die with it, write to `log`, and leave no core file.

    Of all processes the kernel's out-of-memory killer takes this one first.
    """
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_memory(size_bytes: int) -> None:
    """Let this process have `size_bytes` of writable memory more than it has.

    The limit is RLIMIT_DATA, which on Linux (4.7 and later) covers every private writable mapping and
    leaves out the mapped files of libraries; other systems apply it to the heap only.
    """
    limit = _writable_bytes() + size_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _writable_bytes() -> int:
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmData:")), "VmData: 0 kB")
    return int(line.split()[1]) * 1024
