"""`find_logs`: which files of the paths that a user names are read, and which are not."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.text import counted, listing

LOG_NAMES = "*.log, *.txt, *.out, *.err, *.jsonl, stdout, stderr, plog-*, device-*, syslog, messages, dmesg"
"""Files of a folder that are read: so named, numbered or dated by rotation, or packed (.gz, .zst, .bz2, .xz)."""
STDIN = Path("-")
_ROTATED = r"(?:[.-](?:\d{1,4}|\d{4}-?\d\d-?\d\d[\w.:-]*|old|bak|prev))*"
_PACKED = r"(?:\.(?:gz|zst|zstd|bz2|xz|lzma))?"
_LOG = re.compile(
    r"(?:.+\.(?:log|logs|txt|out|err|jsonl)|(?:.+[._-])?(?:stdout|stderr)|log|(?:.+[._-])?plog[-_.].*|device-.+|"
    rf"syslog|messages|dmesg|kern|slurm-\d+\S*|nohup|error_?log|console){_ROTATED}{_PACKED}|"
    rf".+\.(?:log|out|err|txt)[.-][\w-]+{_PACKED}",
    re.IGNORECASE,
)
_TAR = r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|zip)"
_ARCHIVE = re.compile(rf".*logs?\b.*{_TAR}|.*(?:plog|dmesg|report|collect).*{_TAR}", re.IGNORECASE)
_NOT_LOGS = re.compile(
    r"requirements.*\.txt|constraints.*\.txt|CMakeLists\.txt|license.*\.txt|core(?:[.-].*)?|"
    r".+\.(?:png|jpe?g|gif|svg|pdf|html?|json|py|sh|pt|pth|bin|np[yz]|md|ya?ml|csv|lock|tfevents.*)",
    re.IGNORECASE,
)
_MOST_KINDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file to read."""

    path: Path
    size_bytes: int = 0
    """0 for what has no size, as a pipe."""
    is_named: bool = True
    """The user named it; others were found in a folder, and are left out where they are no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files to read, and sentences on what was left out."""

    files: tuple[LogFile, ...]
    notes: tuple[str, ...] = ()


def find_logs(paths: Iterable[str | Path]) -> Found:
    """Return the files to read, folders searched. Raises InputError when a path is missing or a folder has no log."""
    files: dict[object, LogFile] = {}
    notes: list[str] = []
    for path in map(Path, paths):
        if path == STDIN:
            files.setdefault("-", LogFile(path=path))
        elif path.is_dir():
            found, left_out = _in_folder(path)
            if not found:
                raise InputError(f"{path} must hold logs ({LOG_NAMES}), and has none; name the log file.")
            for file in found:
                files.setdefault(_identity(file.path), file)
            notes += left_out
        elif path.exists():
            files.setdefault(_identity(path), LogFile(path=path, size_bytes=_size(path)))
        else:
            raise InputError(f"{path} does not exist; name a log file, or a folder of logs such as ~/ascend/log.")
    return Found(files=tuple(files.values()), notes=tuple(notes))


def log_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the paths of the files to read. Raises InputError as `find_logs` does."""
    return [file.path for file in find_logs(paths).files]


def is_log_name(name: str) -> bool:
    """Tell whether a file of a folder is read, by its name."""
    return not _NOT_LOGS.fullmatch(name) and bool(_LOG.fullmatch(name) or _ARCHIVE.fullmatch(name))


def _in_folder(folder: Path) -> tuple[list[LogFile], list[str]]:
    found: list[LogFile] = []
    closed: list[str] = []
    others, special = Counter[str](), 0
    for entry in _walk(folder, closed):
        try:
            status = entry.stat()
        except OSError:  # a link to nothing, or gone meanwhile
            continue
        if not stat.S_ISREG(status.st_mode):
            special += 1
        elif is_log_name(entry.name):
            found.append(LogFile(path=Path(entry.path), size_bytes=status.st_size, is_named=False))
        else:
            others[Path(entry.name).suffix or "without an ending"] += 1
    notes = []
    if others:
        kinds = listing([f"{number} {kind}" for kind, number in others.most_common()], _MOST_KINDS)
        were = "file was" if others.total() == 1 else "files were"
        notes.append(
            f"{others.total()} {were} not read in {folder}, by the name no log ({kinds}). Name a file to have it read."
        )
    if special:
        notes.append(f"{counted(special, 'pipe, socket or device', 'pipes, sockets or devices')} of {folder} not read.")
    notes += [f"The folder {path} may not be read." for path in closed]
    return sorted(found, key=lambda file: file.path), notes


def _walk(folder: Path, closed: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder and below; a folder that links lead to again is visited once."""
    seen: set[tuple[int, int]] = set()
    todo = [str(folder)]
    while todo:
        path = todo.pop()
        try:
            status = Path(path).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            closed.append(path)
            continue
        for entry in inside:
            if entry.is_dir():
                todo.append(entry.path)
            else:
                yield entry


def _identity(path: Path) -> object:
    """Return what tells whether two names are one file."""
    try:
        status = path.stat()
    except OSError:
        return path
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else path


def _size(path: Path) -> int:
    status = path.stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
