"""Which CPU cores the calling thread may run on."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["reset_thread_affinity", "set_thread_affinity"]

CoreRange = list[int] | list[list[int]] | None

_DEFAULT = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def set_thread_affinity(core_range: CoreRange = None) -> None:
    """Bind the calling thread to `[first, last]`, or to several such ranges; None undoes it.

    A machine made for NPUs has more cores than others: cores that are not here are left out, and where none is
    left, or the system cannot bind, nothing happens. Raises ValueError for what is no range.
    """
    if core_range is None:
        reset_thread_affinity()
        return
    cores = {core for first, last in _ranges(core_range) for core in range(first, last + 1)} & _DEFAULT
    if cores:
        os.sched_setaffinity(0, cores)


def reset_thread_affinity() -> None:
    """Let the calling thread run on every core it could at the start."""
    if _DEFAULT:
        os.sched_setaffinity(0, _DEFAULT)


def _ranges(core_range: list[int] | list[list[int]]) -> list[tuple[int, int]]:
    given: Any = [core_range] if all(isinstance(item, int) for item in core_range) else core_range
    found = []
    for item in given:
        if not isinstance(item, list) or len(item) != 2 or not all(isinstance(core, int) for core in item):
            raise ValueError(f"Invalid core range: {core_range}")
        first, last = item
        if not 0 <= first <= last:
            raise ValueError(f"Invalid core range values: [{first}, {last}]")
        found.append((first, last))
    return found
