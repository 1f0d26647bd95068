"""`disk` and `disks`: the file systems under folders."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system that holds `path`."""

    path: Path
    total_bytes: int
    free_bytes: int


def disk(path: Path) -> Disk | None:
    """Return the size of the file system that holds `path`; None when it cannot be asked."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return Disk(path=path, total_bytes=usage.total, free_bytes=usage.free)


def disks(folders: Iterable[Path]) -> dict[int, list[Disk]]:
    """Return the disks under `folders`, by file system; folders that cannot be asked are left out."""
    found: dict[int, list[Disk]] = {}
    for folder in folders:
        try:
            device = folder.stat().st_dev
        except OSError:
            continue
        here = disk(folder)
        if here is not None:
            found.setdefault(device, []).append(here)
    return found
