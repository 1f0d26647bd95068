"""Processes that answer on their standard streams until their input is closed."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Any

CLOSE_TIMEOUT_S = 3.0
"""A worker looks at its input ten times a second; only one that still imports its libraries takes longer."""


def end_process(process: subprocess.Popen[Any] | None) -> None:
    """Close the streams of a process and wait until it has ended; kill it when that takes too long."""
    if process is None:
        return
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    try:
        process.wait(CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
