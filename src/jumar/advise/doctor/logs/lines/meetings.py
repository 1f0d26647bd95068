"""`meeting_in`: lines that all ranks of a job print at the same moment, by which their clocks are compared."""

from __future__ import annotations

import re

NEEDLES = ("store-based barrier", "Init COMPLETE")
"""Every such line holds one."""
_BARRIER = re.compile(r"\bCompleted store-based barrier for key:\s?(\S+) with (\d+) nodes")
"""torch.distributed: printed once all ranks have come."""
_COMMUNICATOR = re.compile(r"\bnranks (\d+)\b.*\bcommId (0x[0-9a-f]+) - Init COMPLETE")
"""NCCL: the last step of creating a communicator is a barrier."""


def meeting_in(line: str) -> str | None:
    """Return a name for the moment that the line tells, the same in the logs of all ranks; None for other lines."""
    if not any(needle in line for needle in NEEDLES):
        return None
    match = _BARRIER.search(line) or _COMMUNICATOR.search(line)
    return f"{match[1]} {match[2]}" if match else None
