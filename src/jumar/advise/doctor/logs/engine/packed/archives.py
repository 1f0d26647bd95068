"""`members`: the files in a tar or zip archive, read one after the other; nothing is written to disk.

A tar file is read here and not by `tarfile`: of a cut or damaged one the members before the damage count, and no
header can ask for more memory than a name needs.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import cast

from jumar.advise.doctor.logs.engine.packed.streams import Tolerant, reason
from jumar.base.outside.archives import MOST_MEMBERS, UnsafeArchiveError, of_zip

_BLOCK_BYTES = 512
_MOST_NAME_BYTES = 2**16
_MOST_HELD_BYTES = 2**26
"""A zip file inside another archive, or from a pipe, is held in memory up to this size."""
_PAX_PATH = re.compile(rb"\d+ path=([^\n]*)\n")
_ZIP = b"PK\x03\x04"
_ZIP_ERRORS = (OSError, zipfile.BadZipFile, UnsafeArchiveError, NotImplementedError, ValueError)


class Damaged(Exception):
    """An archive cannot be read further. The message is part of a sentence."""


def kind_of(head: bytes) -> str:
    """Return `tar` or `zip` for a stream with these first 512 bytes, empty where it is neither."""
    if head.startswith((_ZIP, b"PK\x05\x06")):
        return "zip"
    return "tar" if len(head) == _BLOCK_BYTES and _is_header(head) else ""


def members(stream: Tolerant, kind: str, path: Path | None) -> Iterator[tuple[str, Tolerant]]:
    """Yield (name, content) of each file. `path` is the archive's own file where it has one. Raises Damaged."""
    found = _of_tar(stream) if kind == "tar" else _of_zip(stream, path)
    for number, (name, content) in enumerate(found):
        if number >= MOST_MEMBERS:
            raise Damaged(f"it has more than {MOST_MEMBERS:,} members")
        yield _plain(name), content


def _plain(name: str) -> str:
    """Return a member's name so that it stays below its archive's and prints as one line."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    return "/".join(part if part.isprintable() else ascii(part)[1:-1] for part in parts) or "member"


class _Limited:
    """The next bytes of a stream, as many as a member has."""

    def __init__(self, stream: Tolerant, size: int) -> None:
        self._stream = stream
        self.left = size

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(min(size, self.left))
        self.left -= len(data)
        if not data and self.left:
            raise EOFError(self._stream.problem or "the archive is cut off inside this member")
        return data

    def skip(self) -> None:
        while self.left and self.read(2**20):
            pass


def _of_tar(stream: Tolerant) -> Iterator[tuple[str, Tolerant]]:
    name = b""
    while True:
        header = stream.read(_BLOCK_BYTES)
        if not header.strip(b"\0") and len(header) == _BLOCK_BYTES:
            return  # the end's mark
        if len(header) < _BLOCK_BYTES:
            raise Damaged(stream.problem or "it is cut off: its end has no mark")
        if not _is_header(header):
            raise Damaged("it is damaged: a member's header is wrong")
        size, kind = _number(header[124:136]), header[156:157]
        content = _Limited(stream, size)
        try:
            if kind in b"Lxg":  # names that are too long for a header
                name = _long_name(kind, content.read(min(size, _MOST_NAME_BYTES))) or name
            elif kind in b"0\0" + b"7":
                yield (name or _name(header)).decode("utf-8", "replace"), Tolerant(content)
                name = b""
            else:
                name = b""
            content.skip()
        except EOFError as error:
            raise Damaged(str(error)) from error
        stream.read(-size % _BLOCK_BYTES)


def _long_name(kind: bytes, data: bytes) -> bytes:
    if kind == b"L":
        return data.rstrip(b"\0")
    found = _PAX_PATH.search(data)
    return found[1] if found and kind == b"x" else b""


def _name(header: bytes) -> bytes:
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    name = header[:100].split(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _is_header(header: bytes) -> bool:
    try:
        _number(header[124:136])
        return _number(header[148:156]) == sum(header) - sum(header[148:156]) + 8 * ord(" ")
    except ValueError:
        return False


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return int(field.strip(b" \0") or b"0", 8)


def _of_zip(stream: Tolerant, path: Path | None) -> Iterator[tuple[str, Tolerant]]:
    held: io.BytesIO | None = None
    if path is None:
        data = stream.read(_MOST_HELD_BYTES + 1)
        if len(data) > _MOST_HELD_BYTES:
            raise Damaged("a zip file that is no file of its own must be small; unpack it first")
        held = io.BytesIO(data)
    try:
        archive = zipfile.ZipFile(held or cast(Path, path))
    except zipfile.BadZipFile:  # its index stands at its end: what is before a cut has none
        again = Tolerant(held) if held else stream
        yield from _of_cut_zip(again)
        raise Damaged("it is cut off or damaged: its index is missing") from None
    except _ZIP_ERRORS as error:
        raise Damaged(reason(error)) from error
    with archive:
        try:
            sizes = {member.name: member.size_bytes for member in of_zip(archive) if member.is_file}
        except _ZIP_ERRORS as error:
            raise Damaged(reason(error)) from error
        for entry in archive.infolist():
            if entry.orig_filename in sizes:
                yield entry.filename, _zip_member(archive, entry)


def _zip_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Tolerant:
    try:
        file = archive.open(entry)
    except (*_ZIP_ERRORS, RuntimeError) as error:  # a password, an unknown method
        failed = Tolerant(io.BytesIO())
        failed.problem = reason(error)
        return failed
    return Tolerant(cast(io.BufferedIOBase, file), spent=lambda: entry.compress_size)


class _Inflated:
    """A member of a zip file whose index is missing: it ends where its packed stream ends."""

    def __init__(self, stream: Tolerant) -> None:
        self._stream = stream
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        while not self._inflate.eof:
            data = self._rest or self._stream.read(2**14)
            if not data:
                raise EOFError("the archive is cut off inside this member")
            out = self._inflate.decompress(data, size)
            self._rest = self._inflate.unconsumed_tail
            if out:
                return out
        return b""

    @property
    def unused(self) -> bytes:
        return self._inflate.unused_data


def _of_cut_zip(stream: Tolerant) -> Iterator[tuple[str, Tolerant]]:
    while (header := stream.read(30)).startswith(_ZIP) and len(header) == 30:
        flags, method, size, name_size, extra_size = (
            int.from_bytes(header[start:end], "little")
            for start, end in ((6, 8), (8, 10), (18, 22), (26, 28), (28, 30))
        )
        name = stream.read(name_size + extra_size)[:name_size].decode("utf-8", "replace")
        if flags & 1 or method not in (0, 8) or (method == 0 and flags & 8):  # a password, another method, no size
            return
        inflated = _Inflated(stream) if method == 8 else None
        content = Tolerant(inflated or _Limited(stream, size), spent=lambda: stream.num_read)
        if not name.endswith("/"):
            yield name, content
        while content.read(2**20):
            pass
        if inflated is not None:
            stream.push_back(inflated.unused)
        mark = stream.peek(24).find(_ZIP)
        stream.read(max(mark, 0))  # sizes may stand after a member
