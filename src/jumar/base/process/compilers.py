"""C++ compilers as child processes: one at a time on this machine, none that cannot end, none that outlives its caller.

A compiler is a tree of processes (g++ starts cc1plus and as). Killing the process that wanted the library would leave
the tree, 0.8 GB each, and its files. So a small Python process stands in between, the keeper: it starts the compiler in
a group of its own and watches its parent. When the parent has ended, in whatever way, it ends the group and removes the
folder. The lock of the builds goes with the last process of a build.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.base.files import try_lock
from jumar.base.host import disk, memory
from jumar.base.process import children
from jumar.base.text import size_text

NEEDED_MEMORY_BYTES = 1 << 30
"""What a compiler takes for the largest of Jumar's sources, observe.cpp: 0.8 GB (g++ 12, measured)."""
NEEDED_DISK_BYTES = 64 << 20
DRAFT = "build-"
"""Beginning of the name of a folder in which is built. Without the lock, such a folder is a leftover."""
_POLL_S = 0.1

_KEEPER = """
import json, os, pathlib, select, shutil, signal, subprocess, sys, time
given = json.loads(sys.stdin.buffer.readline())
log = open(os.path.join(given["folder"], "compiler.log"), "w+b")
compiler = subprocess.Popen(given["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=given["keep"],
                            start_new_session=True)
end, is_late, is_alone = time.monotonic() + given["time_s"], False, False
while compiler.poll() is None and not (is_late or is_alone):
    ended = select.select([0], [], [], 0.05)[0] and not os.read(0, 1)
    # A copy of the parent may hold the pipe open.
    is_alone, is_late = bool(ended) or os.getppid() != given["parent"], time.monotonic() > end
if is_late or is_alone:
    os.killpg(compiler.pid, signal.SIGKILL)
    compiler.wait()
if is_alone:
    shutil.rmtree(given["folder"], ignore_errors=True)
    if given["mark"]:
        pathlib.Path(given["mark"]).touch()
else:
    log.seek(0)
    said = log.read().decode("utf-8", "replace")[-100000:]
    sys.stdout.write(json.dumps({"code": compiler.returncode, "late": is_late, "said": said}))
"""


class NoRoomError(OSError):
    """There is too little memory or disk for a compiler, or another build took all the time there was."""


def compile_with(
    command: Sequence[str], folder: Path, lock: int | None, time_s: float, mark: Path | None = None
) -> tuple[int, str]:
    """Run a compiler, and return its exit code and what it wrote.

    When this process ends meanwhile, `folder` goes, and the empty file `mark` says so. Raises TimeoutError when it
    takes more than `time_s` seconds; its processes have ended then. Raises OSError when it cannot be started.
    """
    keep = [] if lock is None else [lock]
    keeper = subprocess.Popen(
        children.command(code=_KEEPER), env=children.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, pass_fds=keep, start_new_session=True,  # Ctrl-C is this process's to handle
    )  # fmt: skip
    request = {
        "command": [*command], "folder": str(folder), "keep": keep, "time_s": time_s, "parent": os.getpid(),
        "mark": "" if mark is None else str(mark),
    }  # fmt: skip
    try:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.write(json.dumps(request).encode() + b"\n")
        keeper.stdin.flush()  # and it stays open: its end tells the keeper that this process has ended
        answer = keeper.stdout.read()
    finally:
        with contextlib.suppress(OSError):
            keeper.communicate()
    found: dict[str, Any] = json.loads(answer) if answer else {"code": -1, "late": False, "said": "it was ended"}
    if found["late"]:
        raise TimeoutError(f"it took more than {time_s:g} s")
    return int(found["code"]), str(found["said"])


def check_room(folder: Path) -> None:
    """Raise NoRoomError where a compiler that builds in `folder` would not come to its end."""
    available = memory().allocatable_bytes
    if available is not None and available < NEEDED_MEMORY_BYTES:
        raise NoRoomError(
            f"a compiler needs about {size_text(NEEDED_MEMORY_BYTES)} of memory, and {size_text(available)} are free"
        )
    room = disk(folder)
    if room is not None and room.free_bytes < NEEDED_DISK_BYTES:
        raise NoRoomError(
            f"a compiler needs {size_text(NEEDED_DISK_BYTES)} in {folder}, and {size_text(room.free_bytes)} are free"
        )


@contextmanager
def turn(folder: Path | None, time_s: float) -> Iterator[int | None]:
    """Wait for this user's other builds to end, and keep others waiting meanwhile; give the handle of the lock.

    `folder` is locked and holds the builds (None: a file among the temporary ones is locked); what builds that were
    killed left there is removed. Gives None where there are no such locks. Raises NoRoomError after `time_s` seconds.
    """
    try:
        handle = _opened(folder)
    except OSError:
        yield None
        return
    end = time.monotonic() + time_s
    try:
        while not try_lock(handle):
            if time.monotonic() > end:
                raise NoRoomError(f"other builds took all of {time_s:g} s")
            time.sleep(_POLL_S)
        for left in folder.glob(f"{DRAFT}*") if folder is not None else ():
            shutil.rmtree(left, ignore_errors=True)
        yield handle
    finally:
        os.close(handle)


def _opened(folder: Path | None) -> int:
    """Open what is locked: the folder, or a file. Raises OSError, also for a file of another user."""
    if folder is not None:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    path = Path(tempfile.gettempdir()) / f"jumar-build-{os.getuid()}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    told = os.fstat(handle)
    if told.st_uid != os.getuid() or not stat.S_ISREG(told.st_mode):
        os.close(handle)
        raise PermissionError(f"{path} is another user's")
    return handle
