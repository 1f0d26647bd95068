"""Taking turns: of all the processes that tune on a machine, one measures at a time.

    with Turns().taken(): ...          one trial: building, checking, timing

A trial that is timed while another one compiles or runs is disturbed, and on a small machine nothing would ever be
judged. Two runs therefore alternate, trial by trial, and both come to their end. Two lock files make it fair: who
waits for the machine holds the queue's lock, so that the one who has just measured comes after him. Both are let go
of by the system when a process is killed. Threads of one process (compilers side by side) share its turn.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jumar.base.files import try_lock
from jumar.tune.model.folders import temporary_folder

MACHINE, QUEUE = "jumar-measuring.lock", "jumar-waiting.lock"
SHARED = 0o666
"""Permissions of the lock files."""
POLL_S = 0.02
WORTH_TELLING_S = 0.5
"""Waiting longer than this is worth telling."""

Waiting = Callable[[int | None], None]
"""Told, once a wait, the process that measures; None when it is not known."""

_lock = threading.Lock()
_held: dict[Path, tuple[int, list[int]]] = {}
"""By machine lock: how many threads of this process hold it, and its open files."""


class NoTurn(Exception):
    """Other processes measured all the while."""


class Turns:
    """The turns of one machine. `waited_s` is how long this process waited for them, over all turns."""

    def __init__(self, folder: Path | None = None, on_wait: Waiting | None = None) -> None:
        """`folder` has the lock files (None: the system's for temporary files, which all users share).

        Raises TuneError where there is no such folder.
        """
        self._folder = folder or temporary_folder()
        self._on_wait = on_wait
        self.waited_s = 0.0

    @contextmanager
    def taken(self, patience_s: float = math.inf) -> Iterator[None]:
        """Hold the machine's turn. Raises NoTurn when it has not come after `patience_s`.

        Where there are no file locks, nothing is waited for.
        """
        path = self._folder / MACHINE
        with _lock:
            if not self._joined(path):
                self._take(path, patience_s)
        try:
            yield
        finally:
            _leave(path)

    @staticmethod
    def _joined(path: Path) -> bool:
        count, handles = _held.get(path, (0, []))
        if count:
            _held[path] = (count + 1, handles)
        return count > 0

    def _take(self, path: Path, patience_s: float) -> None:
        handles = [_opened(self._folder / QUEUE), _opened(path)]
        if None not in handles:
            queue, machine = (handle for handle in handles if handle is not None)
            try:
                self._wait(queue, machine, patience_s)
            except BaseException:
                os.close(machine)
                raise
            finally:
                os.close(queue)
            _sign(machine)
            handles = [machine]
        _held[path] = (1, [handle for handle in handles if handle is not None])

    def _wait(self, queue: int, machine: int, patience_s: float) -> None:
        begun, told = time.monotonic(), False
        try:
            for handle in (queue, machine):
                while not try_lock(handle):
                    waited_s = time.monotonic() - begun
                    if waited_s > patience_s:
                        raise NoTurn
                    if not told and waited_s > WORTH_TELLING_S and self._on_wait is not None:
                        told = True
                        self._on_wait(_holder(machine))
                    time.sleep(POLL_S)
        finally:
            self.waited_s += time.monotonic() - begun


def _leave(path: Path) -> None:
    with _lock:
        count, handles = _held[path]
        if count > 1:
            _held[path] = (count - 1, handles)
            return
        del _held[path]
        for handle in handles:
            os.close(handle)


def _opened(path: Path) -> int | None:
    """Open a lock file; None where that cannot be.

    NOTE: not created when it exists: in a folder of all users, the kernel refuses O_CREAT on another user's file
    (fs.protected_regular). A lock needs no right to write. A link is not followed: anybody may have put it there, and
    the file is written to.
    """
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT):
        try:
            handle = os.open(path, flags | os.O_NOFOLLOW, SHARED)
        except OSError:
            continue
        if flags & os.O_CREAT:
            with suppress(OSError):
                os.fchmod(handle, SHARED)  # whatever the umask says: others must be able to open it
        return handle
    return None


def _sign(handle: int) -> None:
    """Leave this process's number for those who wait, where the file may be written."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except OSError:
        return


def _holder(handle: int) -> int | None:
    text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
