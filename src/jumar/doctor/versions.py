"""Version numbers as packages write them: `2.13.0+cpu`, `2.10.0.post4`, `2.1.0.rc1`."""

from __future__ import annotations

import re


def release(version: str) -> tuple[int, int] | None:
    """Return (major, minor) of a version, or None when it does not start with two numbers."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None
