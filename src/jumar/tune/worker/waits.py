"""How long this process's threads waited for a processor: what other programs do to a measurement.

Linux keeps, for every thread, the time it was ready to run and did not (`/proc/PID/task/TID/schedstat`,
nanoseconds, with the number of times it was given a processor; kernel documentation, sched-stats). A
thread that is woken on an idle core waits a few microseconds each time, and that belongs to the operator
that wakes it. A thread that finds its core taken waits for milliseconds: an operator of two threads then
looks thirty times slower than it is, and one thread looks like a gain. Pairs with such waits are left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

TASKS = Path("/proc/self/task")
WAKE_UP_US = 50.0
"""Waiting longer than this each time is waiting for another program."""
MOST_RESTS = 10
BUSY_SHARE = 0.2
"""Of a rest; what looks and sleeps takes less."""

Reading = Mapping[str, tuple[int, int]]
"""Thread to (nanoseconds waited, times run); empty where the system does not tell."""


def read_waits() -> Reading:
    """Return the waits of every thread so far."""
    waits = {}
    try:
        for task in TASKS.iterdir():
            fields = (task / "schedstat").read_text("ascii").split()
            waits[task.name] = (int(fields[1]), int(fields[2]))
    except (OSError, IndexError, ValueError):  # not Linux, a kernel without the counters, a thread that ended
        return waits
    return waits


def rest(seconds: float) -> None:
    """Sleep for `seconds`, again while another thread of this process runs in them, at most `MOST_RESTS` times.

    Threads of a pool go on spinning after a call: those of OpenMP for 300,000 pauses, which is 6 to 15 ms.
    """
    for _ in range(MOST_RESTS):
        before = _ran_ns()
        time.sleep(seconds)
        if _ran_ns() - before < BUSY_SHARE * seconds * 1e9:
            return


def _ran_ns() -> int:
    """Return the time that all threads have run; 0 where the system does not tell."""
    try:
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in TASKS.iterdir())
    except (OSError, IndexError, ValueError):
        return 0


def waited_us(before: Reading, after: Reading) -> float:
    """Return how long the thread that waited longest was kept from a processor by other programs, in microseconds."""
    return max((_kept_us(before.get(thread, (0, 0)), now) for thread, now in after.items()), default=0.0)


def _kept_us(before: tuple[int, int], now: tuple[int, int]) -> float:
    delay_us = (now[0] - before[0]) / 1000
    return delay_us if delay_us > WAKE_UP_US * max(now[1] - before[1], 1) else 0.0
