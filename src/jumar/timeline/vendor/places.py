"""Folders of profilers below a place that the user names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jumar.timeline.vendor.roles import role_of

DEEPEST = 5
_HEAD = 1 << 16
_TEXT_TIME = re.compile(rb'"ts"\s*:\s*"\d+\.\d+')
_MOST = 20_000
OUTPUT = "ASCEND_PROFILER_OUTPUT"
_RAW = frozenset({"FRAMEWORK", "data", "sqlite", "logs", "mindstudio_profiler_log"})
"""Folders that hold raw data, which only the vendor's own tools read."""


def folders(place: Path) -> Iterator[Path]:
    """Yield a folder and the folders below it, parents first; links are not followed."""
    waiting = [(place, 0)]
    for _ in range(_MOST):
        if not waiting:
            return
        folder, depth = waiting.pop()
        yield folder
        if depth < DEEPEST:
            waiting += [(path, depth + 1) for path in reversed(_below(folder)) if path.name not in _RAW]


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def files(folder: Path) -> list[Path]:
    """Return the plain files of a folder in the order of their names; links are left out."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return []


def is_output(folder: Path) -> bool:
    """Return whether a folder holds the files of `ASCEND_PROFILER_OUTPUT`, also when it was renamed."""
    return folder.name == OUTPUT or any(
        path.name == "trace_view.json" or (role_of(path.name) == "databases" and path.name.startswith("ascend_"))
        or path.name == "kernel_details.csv"
        for path in files(folder)
    )  # fmt: skip


def is_trace(path: Path) -> bool:
    """Return whether a file is a trace of a CANN profiler under any name: a list whose times are text. Reads 64 KiB."""
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[" and _TEXT_TIME.search(head) is not None


def size(paths: list[Path]) -> int:
    """Return the bytes of files; those that are gone count as none."""
    return sum(path.stat().st_size for path in paths if path.exists())
