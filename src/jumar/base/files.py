"""Files and folders that are whole or absent, and locks on them.

`write_atomically` is the one writer: a temporary file beside the target, flushed to the disk, then renamed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jumar.base.errors import OutputError

PART_SUFFIX = ".part"
"""Ending of a file or folder that is being written. Readers ignore such files."""
_LONGEST_STEM = 200
"""A file name may have 255 bytes."""


def write_atomically(path: Path, write: Callable[[Path], object], *, durable: bool = True) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to the disk and rename it to `path`.

    A process that is killed at any moment leaves the old `path` (or none), never half of the new one. `durable=False`
    does not wait for the disk: for a cache, whose reader checks what it reads. Raises OSError when the disk is full
    or cannot be written, and every exception of `write`. The temporary file is then removed.
    """
    part = _part_of(path)
    try:
        write(part)
        if durable:
            _flush(part)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_bytes(path: Path, data: bytes, *, durable: bool = True, keep_mode: bool = False) -> None:
    """Write `data` to `path`, whole or not at all. Raises OSError.

    `keep_mode` gives the new file the permission bits and, where the system allows it, the owner of the old one.
    """

    def fill(part: Path) -> None:
        part.write_bytes(data)
        if keep_mode:
            _copy_owner_and_mode(path, part)

    write_atomically(path, fill, durable=durable)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all. Raises OSError."""
    write_bytes(path, text.encode("utf-8"), durable=durable)


def append(handle: int, data: bytes) -> None:
    """Append all of `data` to an open file without a buffer and flush it to the disk.

    Raises OSError, also where the disk took only a part of `data`.
    """
    while data:
        data = data[os.write(handle, data) :]
    os.fsync(handle)


def write_result(path: str | Path, text: str, force: bool = False) -> None:
    """Write `text` as UTF-8 to the `path` that the user named, making missing folders.

    What UTF-8 cannot hold (half of a surrogate pair from an odd file name) is written as `\\udc80`.
    Raises OutputError when `path` exists and `force` is False, or cannot be written.
    """
    path = Path(path)
    check_output(path, force)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode("utf-8", "backslashreplace"))


def check_output(path: Path, force: bool) -> None:
    """Raise OutputError when a result must not be written to `path`: a folder, or a file that exists (no `force`)."""
    if path.is_dir():
        raise OutputError(f"{path} must be a file to write to, and it is a folder; name a file in it.")
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"{path} exists and is not replaced; choose another name or pass --force.")


@contextmanager
def explained(path: Path, advice: str = "choose a place you can write to") -> Iterator[None]:
    """Turn an OSError about `path` into an OutputError of one sentence that ends in `advice`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path} cannot be written ({reason}); {advice}.") from error


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a draft folder beside `path`, which becomes `path` as a whole when the block ends.

    After an exception nothing is left of the draft. Where `path` exists, `replace` moves the old folder away, and
    removes it when the new one is in its place; else FileExistsError is raised. Raises OSError as the system does.
    """
    draft = _part_of(path)
    draft.mkdir()
    try:
        yield draft
        if not os.path.lexists(path):
            draft.rename(path)
        elif replace:
            _exchange(draft, path)
        else:
            raise FileExistsError(17, "File exists", str(path))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def try_lock(handle: int) -> bool:
    """Lock an open file for this process, which holds it until the handle is closed; does not wait.

    Returns False when another process holds the lock. A system without such locks (Windows) answers True.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def lock_folder(folder: Path) -> int | None:
    """Lock a folder for this process and return the handle that holds the lock; close it to let go.

    Returns None when another process holds the lock, and where a folder cannot be opened (Windows).
    """
    if not hasattr(os, "O_DIRECTORY"):  # pragma: no cover - Windows
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    if try_lock(handle):
        return handle
    os.close(handle)
    return None


def _part_of(path: Path) -> Path:
    # Beside the target, because a rename is atomic only within a file system.
    return path.with_name(f".{path.name[:_LONGEST_STEM]}.{os.getpid()}-{secrets.token_hex(3)}{PART_SUFFIX}")


def _flush(part: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())


def _copy_owner_and_mode(old: Path, new: Path) -> None:
    about = old.stat()
    with suppress(OSError):  # only root may give files away
        os.chown(new, about.st_uid, about.st_gid)
    new.chmod(about.st_mode & 0o7777)


def _exchange(draft: Path, path: Path) -> None:
    """Put `draft` in the place of `path`; the old one comes back when that fails."""
    old = _part_of(path)
    path.rename(old)
    try:
        draft.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
