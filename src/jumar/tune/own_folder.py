"""A process's folder, which goes with it: removed by the process itself, else by the next one on that machine.

A run that is killed cleans nothing up, nor does a member of a cluster, which Ray ends so. Each process holds a lock on
its folder, which the system lets go of with the process, so that others can tell a folder that is in use from one that
was left behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from jumar.tune.folders import temporary_folder

YOUNG_S = 60.0
"""A folder that was made less than this long ago may not be locked yet."""


class OwnFolder:
    """A new folder at `path`, whose name begins with `prefix`; those left behind beside it are removed.

    As a context manager it gives its path, and is removed at the end.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        """`parent` is where it is made (None: the system's folder for temporary files)."""
        parent = parent or temporary_folder()
        for left in parent.glob(f"{prefix}*"):
            _remove_unless_used(left)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = _locked(self.path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _remove_unless_used(folder: Path) -> None:
    with suppress(OSError):  # another process may have been quicker
        if time.time() - folder.lstat().st_mtime < YOUNG_S:
            return
    lock = _locked(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder for this process; None when another one has, and where there are no such locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
