"""Writes an output folder. The folder appears whole or not at all.

The folder is filled under a temporary name beside its place and renamed when it is complete. A run
that was killed leaves that temporary folder; the next run knows it by its name, which holds the host and
the number of the process that is no more, and clears it away.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jumar.base.errors import OutputError
from jumar.convert.disk.walk import UNFINISHED, shown
from jumar.convert.model.outcome import Outcome

_REPLACED = "replaced"


def check_output(root: Path, out: Path, force: bool) -> None:
    """Raise OutputError when writing to `out` would replace something, or mix input and output."""
    if os.path.lexists(out) and not force:
        raise OutputError(f'"{out}" exists already; give a new folder, or --force to replace it.')
    here, there = root.resolve(), out.resolve()
    if here == there or there in here.parents:
        raise OutputError(f'"{out}" holds the sources themselves; give a folder outside of {root}.')
    if out.exists() and not out.is_dir():
        raise OutputError(f'"{out}" is a file; give a folder.')


def write_folder(
    root: Path,
    out: Path,
    outcomes: Iterable[Outcome],
    others: Iterable[str],
    folders: Iterable[str],
    reports: Mapping[str, bytes],
) -> None:
    """Write outcomes, copies of `others` (paths from `root`), empty `folders` and `reports` as the folder `out`.

    Raises OutputError when it cannot be written, and then leaves nothing behind.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = _new_folder(out)
    except OSError as error:
        raise OutputError(f'"{out}" cannot be written: {error.strerror}. Choose another folder.') from error
    try:
        _fill(root, partial, outcomes, others, list(folders))
        for name, data in reports.items():
            (partial / name).write_bytes(data)
        _put(partial, out)
    except OSError as error:
        _remove(partial)
        what = f" ({shown(str(error.filename))})" if error.filename else ""
        message = f'"{out}" cannot be written: {error.strerror}{what}. Mend that or choose another folder.'
        raise OutputError(message) from error
    except BaseException:
        _remove(partial)
        raise


def _fill(root: Path, folder: Path, outcomes: Iterable[Outcome], others: Iterable[str], folders: list[str]) -> None:
    for name in folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        target = _place(folder, outcome.path)
        with target.open("xb") as file:
            file.write(outcome.after)
        _copy_marks(root / outcome.path, target, times=not outcome.changed)
    for name in others:
        target = _place(folder, name)
        if os.path.lexists(target):
            raise FileExistsError(17, "two names are one on this file system", name)
        shutil.copy2(root / name, target, follow_symlinks=False)
    for name in sorted(folders, reverse=True):
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(root / name, folder / name)


def _place(folder: Path, name: str) -> Path:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy_marks(source: Path, target: Path, *, times: bool) -> None:
    """Give `target` the permission bits of `source`, and its times where their bytes are the same."""
    try:
        about = source.stat()
    except OSError:
        return  # the source is gone since it was read
    target.chmod(about.st_mode & 0o7777)
    if times:
        os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _new_folder(out: Path) -> Path:
    """Make a folder beside `out`, open to whom any new folder here is open (`tempfile` makes private ones)."""
    folder = out.parent / f"{_prefix(out)}{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def _put(partial: Path, out: Path) -> None:
    """Move the finished folder to its place; what it replaces goes only after that."""
    if not os.path.lexists(out):
        partial.rename(out)
        return
    old = _new_folder(out)
    replaced = old / _REPLACED
    out.rename(replaced)
    try:
        partial.rename(out)
    except BaseException:
        replaced.rename(out)
        raise
    finally:
        _remove(old)


def _remove(folder: Path) -> None:
    """Remove a temporary folder, also what a source's permission bits made read-only."""
    for inner, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(inner).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _prefix(out: Path) -> str:
    return f".{out.name}{UNFINISHED}{socket.gethostname()}-{os.getpid()}-"


def clear_leftovers(out: Path) -> None:
    """Remove what killed runs left beside `out`; an output that one of them had moved away comes back."""
    if not out.parent.is_dir():
        return
    for folder in _leftovers(out):
        replaced = folder / _REPLACED
        if replaced.is_dir() and not os.path.lexists(out):
            replaced.rename(out)
        _remove(folder)


def _leftovers(out: Path) -> Iterator[Path]:
    """Yield temporary folders of `out` whose process, on this host, is no more."""
    head = f".{out.name}{UNFINISHED}{socket.gethostname()}-"
    for entry in sorted(os.listdir(out.parent)):  # noqa: PTH208  # names are compared, and Path would decode each
        number = entry.removeprefix(head).partition("-")[0]
        if entry.startswith(head) and number.isdigit() and not _is_alive(int(number)):
            yield out.parent / entry


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
