"""Where the members of an archive may be written: `targets` is the one check before anything is unpacked.

The names in an archive come from whoever made it. A name may be absolute, climb out with `..`, name a drive or a
device, be a link, or be another spelling of a name that was there before. Whatever unpacks an archive asks `targets`
first and writes to nothing else.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LONGEST_PART_BYTES = 255
"""A file system's limit on one name."""
LONGEST_NAME_BYTES = 4000
MOST_MEMBERS = 100_000
SPARE_BYTES, SPARE_FACTOR = 1 << 30, 20
"""What an archive holds may take so many bytes, and so many times the archive, in memory."""
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Names that Windows takes for devices, in every folder and with every ending."""


class UnsafeArchiveError(ValueError):
    """An archive must not be unpacked. The message is part of a sentence: which member breaks which rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What an archive says of one member."""

    name: str
    size_bytes: int
    """Unpacked."""
    is_file: bool = True
    """False for a folder, a link, a device, a pipe."""


def of_zip(archive: zipfile.ZipFile) -> list[Member]:
    """Return what a zip file says of its members.

    Raises UnsafeArchiveError for members that lie over each other, or beyond the end of the file: few bytes can
    stand for any number of them.
    """
    entries = archive.infolist()
    if archive.filename is not None:
        _check_places(entries, Path(archive.filename).stat().st_size)
    return [Member(name=entry.orig_filename, size_bytes=entry.file_size, is_file=_is_file(entry)) for entry in entries]


def targets(folder: Path, members: Iterable[Member], *, limit_bytes: int) -> dict[str, Path]:
    """Return, by the name of each member, the file in `folder` that it is to be written to.

    `limit_bytes` is the most that all may take together. Raises UnsafeArchiveError for a member whose file would lie
    outside of the folder or on another member's, that is no plain file, or that does not fit the limit.
    """
    top = folder.resolve()
    found: dict[str, Path] = {}
    files: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    left = limit_bytes
    for member in members:
        parts = _parts(member.name)
        if not member.is_file:
            raise UnsafeArchiveError(f"its member {_told(member.name)} is a folder, a link or a device")
        target = top.joinpath(*parts)
        if not target.resolve().is_relative_to(top) or target.resolve() == top:
            raise UnsafeArchiveError(f"its member {_told(member.name)} would be written outside of its folder")
        # Systems that tell no upper from lower case, or normalise names, would write one over the other.
        key = tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)
        above = {key[:depth] for depth in range(1, len(key))}
        if key in files or key in folders or above & files:
            raise UnsafeArchiveError(f"its member {_told(member.name)} has the name of another")
        files.add(key)
        folders |= above
        left -= member.size_bytes
        if member.size_bytes < 0 or left < 0:
            raise UnsafeArchiveError(f"its members take more than the {limit_bytes:,} bytes that they may take")
        if len(files) > MOST_MEMBERS:
            raise UnsafeArchiveError(f"it has more than {MOST_MEMBERS:,} members")
        found[member.name] = target
    return found


def check_zip(path: Path) -> None:
    """Check a zip file that another library unpacks. Raises UnsafeArchiveError as `targets`, OSError and BadZipFile."""
    with zipfile.ZipFile(path) as archive:
        members = of_zip(archive)
    targets(path.parent, members, limit_bytes=sum(member.size_bytes for member in members))


def check_size(path: Path) -> None:
    """Check a file that another library reads in memory: a zip file must not hold far more than its bytes can.

    Other files pass. Raises UnsafeArchiveError, OSError and BadZipFile.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        held = sum(member.size_bytes for member in of_zip(archive))
    if held > SPARE_BYTES + SPARE_FACTOR * path.stat().st_size:
        raise UnsafeArchiveError(f"its members are {held:,} bytes in {path.stat().st_size:,}")


def write_member(target: Path, content: bytes | memoryview) -> None:
    """Write a member to its target, with the folders above it. The file must be new. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
        file.write(content)


def _parts(name: str) -> Sequence[str]:
    """Return the parts of a member's name. Raises UnsafeArchiveError for one that leads elsewhere on any system."""
    parts = name.split("/")
    outside = name.startswith("/") or ".." in parts or "\\" in name or ":" in name
    if outside or PurePosixPath(name).is_absolute():
        raise UnsafeArchiveError(f"its member {_told(name)} would be written outside of its folder")
    odd = any(part in {"", "."} or part != part.rstrip(". ") or _DEVICES.fullmatch(part) for part in parts)
    if odd or not name.isprintable():
        raise UnsafeArchiveError(f"its member {_told(name)} has no plain name")
    encoded = [part.encode() for part in parts]  # what is printable has no half of a surrogate pair
    if any(len(part) > LONGEST_PART_BYTES for part in encoded) or len(name.encode()) > LONGEST_NAME_BYTES:
        raise UnsafeArchiveError(f"its member {_told(name)} has a name that is too long")
    return parts


def _told(name: str) -> str:
    return ascii(name if len(name) <= 80 else name[:77] + "...")


def _is_file(entry: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    return not entry.orig_filename.endswith("/") and kind in {0, stat.S_IFREG}


def _check_places(entries: Sequence[zipfile.ZipInfo], size_bytes: int) -> None:
    """Raise UnsafeArchiveError unless each member has a place of its own in a file of `size_bytes`."""
    end = 0
    for entry in sorted(entries, key=lambda one: one.header_offset):
        if entry.header_offset < end:
            raise UnsafeArchiveError("its members lie over each other")
        end = entry.header_offset + entry.compress_size
        if end > size_bytes:
            raise UnsafeArchiveError("its members reach beyond the end of the file")
        if entry.compress_type == zipfile.ZIP_STORED and entry.file_size != entry.compress_size:
            raise UnsafeArchiveError(f"its member {_told(entry.filename)} says two sizes")
