"""`disk` and `disks`: the file systems under folders."""

from __future__ import annotations

import os
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
    total_inodes: int | None = None
    """Files that it can hold; None where it does not count them."""
    free_inodes: int | None = None
    is_read_only: bool = False
    is_noexec: bool = False


def disk(path: Path) -> Disk | None:
    """Return the size of the file system that holds `path`; None when it cannot be asked."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    about = _about(path)
    counts = about is not None and about.f_files > 0
    flags = 0 if about is None else about.f_flag
    return Disk(
        path=path, total_bytes=usage.total, free_bytes=usage.free,
        total_inodes=about.f_files if about is not None and counts else None,
        free_inodes=about.f_favail if about is not None and counts else None,
        is_read_only=bool(flags & getattr(os, "ST_RDONLY", 1)), is_noexec=bool(flags & getattr(os, "ST_NOEXEC", 8)),
    )  # fmt: skip


def _about(path: Path) -> os.statvfs_result | None:
    """Return what the system says of a file system; None where it says nothing."""
    try:
        return os.statvfs(path)
    except (AttributeError, OSError):  # Windows has no such call
        return None


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
