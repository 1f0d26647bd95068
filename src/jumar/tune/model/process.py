"""What a tuning process asks of its host: ending in order, environment variables, folders, and what a user names.

SIGTERM ends a run as Ctrl-C does. `OwnFolder` is a process's folder for temporary files. The process removes it at its
end, else the next process on that machine does: a run that is killed removes nothing, nor does a member of a cluster,
which Ray ends so. Each process holds a lock on its folder. The system releases the lock with the process, so that
others can tell a folder in use from one that was left behind.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from jumar.base.errors import JumarError
from jumar.base.files import lock_folder
from jumar.tune.model.errors import TuneError

INTERRUPTIONS = ("Ctrl-C", "SIGTERM")
"""What `TuneResult.stopped_by` says after one: such a run did not come to its own end."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came. A KeyboardInterrupt, so that whatever cleans up after Ctrl-C does so here."""

    def __init__(self) -> None:
        super().__init__("SIGTERM")


_has_come = threading.Event()
"""Whether SIGTERM came within `ending_in_order`."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Turn the first SIGTERM into `Terminated`; further ones, and Ctrl-C after it, end the process at once.

    Has no effect outside of the main thread, where signals cannot be caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _has_come.clear()


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Put the handler of SIGTERM back that was there before; for calling what sets one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def sigterm_told() -> Iterator[None]:
    """Raise `Terminated` again where what is called within makes a mere KeyboardInterrupt of it, as Ray's core does."""
    try:
        yield
    except KeyboardInterrupt as error:
        if _has_come.is_set() and not isinstance(error, Terminated):
            raise Terminated from error
        raise


def reason(error: KeyboardInterrupt) -> str:
    """Return what stopped the run, as `TuneResult.stopped_by` says it: `SIGTERM` or `Ctrl-C`."""
    return "SIGTERM" if isinstance(error, Terminated) else "Ctrl-C"


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _has_come.set()
    raise Terminated


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Give an environment variable this value while this is entered; then it is as it was, set or not."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def expanded(text: str, source: str, error: type[JumarError]) -> Path:
    """Return the path that `source` names, with `~` and `~user` replaced.

    Raises `error` where that home folder is not known.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as problem:
        raise error(
            f"{source} must begin with a home folder that is known, or with none; got {text}. Write the path in full."
        ) from problem


def temporary_folder() -> Path:
    """Return the folder for temporary files. Raises TuneError, in one sentence, where none can be written to."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise TuneError(
            "tuning needs a folder for temporary files, and neither TMPDIR, /tmp, /var/tmp nor the working folder can "
            "be written to: each is missing, read-only or full. Free space there, or set TMPDIR to another."
        ) from error


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
        self._lock = lock_folder(self.path)

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
    lock = lock_folder(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def named(module: str, name: str) -> Any:
    """Return what `name`, which may have dots, is in a module or Python file. Raises what importing it raises."""
    found: Any = _module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@contextlib.contextmanager
def from_here(module: str) -> Iterator[None]:
    """Import from the current folder, or the file's own, first; whatever is called meanwhile, the folder stays current.

    Programs go to their own folder for their files; what the user named on the command line is meant from here.
    """
    here = Path.cwd()
    folder = str(Path(module).resolve().parent if module.endswith(".py") else here)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        os.chdir(here)
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _module(module: str) -> ModuleType:
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = Path(module).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file():
        raise ImportError(f"there is no file {module}")
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # so that classes in it can be found by their name (pickle, dataclasses)
    spec.loader.exec_module(made)
    return made
