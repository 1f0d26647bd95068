"""`stale_changes`: lock files that nobody holds, and kernel caches that an error names, moved aside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from jumar.advise.doctor.fixes.change import Change, Move
from jumar.advise.doctor.machine.host import Host
from jumar.base.files import try_lock
from jumar.base.findings import Finding

STALE_AFTER = timedelta(hours=1)
"""A build holds its lock for minutes."""
_MOST_ENTRIES = 20_000
_ABOUT_CACHE = re.compile(r"kernel[ _-]?(?:cache|meta)|atc_data|op_compiler_cache|compil\w+ cache|kernel caches?", re.I)
_ABOUT_LOCK = re.compile(r"\block files?\b|\.lock\b|torch_extensions|stale lock", re.I)


def stale_changes(host: Host, findings: Sequence[Finding], now: datetime) -> Iterator[Change]:
    """Yield what findings of a log ask to move aside: caches and locks are never touched without one."""
    mark = f".jumar-aside-{now:%Y%m%d-%H%M%S}"
    in_use = frozenset(open_files())
    for finding in findings:
        said = f"{finding.message} {finding.action}"
        if _ABOUT_CACHE.search(said):
            for folder in kernel_caches(host):
                if any(path.is_relative_to(folder.resolve()) for path in in_use):
                    continue  # a run is using it
                aside = folder.with_name(folder.name + mark)
                title = f"Move the kernel cache {folder} aside"
                yield Move(title=title, code=finding.code, path=folder, aside=aside)
            return
    for finding in findings:
        if _ABOUT_LOCK.search(f"{finding.message} {finding.action}"):
            for lock in stale_locks(host, now):
                if lock.resolve() in in_use:
                    continue  # PyTorch holds such a lock by keeping it open
                title = f"Move the stale lock {lock} aside"
                yield Move(title=title, code=finding.code, path=lock, aside=lock.with_name(lock.name + mark))
            return


def kernel_caches(host: Host) -> Iterator[Path]:
    """Yield the folders of compiled kernels that are there, as the variables say, else the usual ones."""
    home = host.environ.get("HOME")
    cache, work = host.environ.get("ASCEND_CACHE_PATH"), host.environ.get("ASCEND_WORK_PATH")
    named = host.environ.get("ACL_OP_COMPILER_CACHE_DIR")
    places = [Path(named) / "kernel_cache"] if named else []
    places += [Path(cache) / "kernel_cache"] if cache else []
    places += [Path(work) / "kernel_meta"] if work else []
    places += [Path(home) / "atc_data" / "kernel_cache"] if home and not named and not cache else []
    yield from (place for place in dict.fromkeys(places) if place.is_dir() and not place.is_symlink())


def stale_locks(host: Host, now: datetime) -> Iterator[Path]:
    """Yield old lock files of builds of extensions and kernels that no process holds."""
    home = host.environ.get("HOME")
    named = host.environ.get("TORCH_EXTENSIONS_DIR")
    tops = [Path(named)] if named else [Path(home) / ".cache" / "torch_extensions"] if home else []
    tops += list(kernel_caches(host))
    for top in tops:
        for number, path in enumerate(sorted(top.rglob("*lock"))):
            if number >= _MOST_ENTRIES:
                break
            if path.is_file() and not path.is_symlink() and _is_old(path, now) and not _is_held(path):
                yield path


def _is_old(path: Path, now: datetime) -> bool:
    return now.timestamp() - path.stat().st_mtime > STALE_AFTER.total_seconds()


def _is_held(path: Path) -> bool:
    """Tell whether a process holds a lock on the file, or it cannot be known."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return True
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def open_files(proc: Path = Path("/proc")) -> Iterator[Path]:
    """Yield the files that processes have open, as far as this user may see them."""
    for folder in proc.glob("[0-9]*/fd"):
        try:
            yield from (entry.readlink() for entry in folder.iterdir())
        except OSError:  # another user's, or gone
            continue
