"""`Archive`: a zip file of `torch.save`, or one that lies within a larger file; its members are read in pieces."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.outside.archives import UnsafeArchiveError, check_size, of_zip
from jumar.export.formats.document import damaged
from jumar.export.tensors import PIECE_BYTES, file_pieces

_LOCAL = struct.Struct("<4s5H3I2H")
_MOST_MEMBERS = 1_000_000
_MOST_PICKLE_BYTES = 1 << 30


class Archive:
    """The members of a zip file. Raises InputError where it is damaged or holds far more than its bytes can."""

    def __init__(self, path: Path, offset: int = 0, length: int | None = None) -> None:
        self.path, self.offset = path, offset
        self.length = path.stat().st_size - offset if length is None else length
        try:
            if offset == 0 and length is None:
                check_size(path)
            with self._opened() as file, zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                of_zip(archive)
        except (UnsafeArchiveError, zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
            raise InputError(damaged(path, error)) from error
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members) or len(members) > _MOST_MEMBERS:
            raise InputError(damaged(path, "two members have one name"))
        # Zero everywhere: saved without checksums, which torch.serialization.set_crc32_options allows.
        self._has_checksums = any(member.CRC for member in members)
        self._places: dict[str, int] = {}

    def names(self) -> list[str]:
        """Return the names of all members."""
        return list(self._members)

    def size(self, name: str) -> int:
        """Return the unpacked bytes of a member. Raises InputError where there is none of this name."""
        return self._member(name).file_size

    def whole(self, name: str) -> bytes:
        """Return a member, which must be small. Raises InputError."""
        size = self.size(name)
        if size > _MOST_PICKLE_BYTES:
            raise InputError(damaged(self.path, f"{name} has {size:,} bytes"))
        return b"".join(bytes(piece) for piece in self.pieces(name, 0, size))

    def pieces(self, name: str, start: int, end: int) -> Iterator[memoryview]:
        """Yield the bytes from `start` to `end` of a member; the checksum is compared where that is all of it."""
        member = self._member(name)
        if not 0 <= start <= end <= member.file_size:
            raise InputError(damaged(self.path, f"{name} has {member.file_size:,} bytes of {end:,}"))
        checked = self._has_checksums and start == 0 and end == member.file_size
        crc = 0
        for piece in self._raw(member, start, end):
            if checked:
                crc = zlib.crc32(piece, crc)
            yield piece
        if checked and crc != member.CRC:
            raise InputError(damaged(self.path, f"the checksum of {name} is another"))

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise InputError(damaged(self.path, f"{name} is missing"))
        return self._members[name]

    def _raw(self, member: zipfile.ZipInfo, start: int, end: int) -> Iterator[memoryview]:
        if member.compress_type == zipfile.ZIP_STORED:
            at = self._place(member)
            yield from file_pieces(self.path, at + start, end - start)
            return
        try:
            with self._opened() as file, zipfile.ZipFile(file) as archive, archive.open(member) as unpacked:
                unpacked.seek(start)
                while start < end:
                    data = unpacked.read(min(PIECE_BYTES, end - start))
                    if not data:
                        raise InputError(damaged(self.path, f"{member.filename} is cut short"))
                    start += len(data)
                    yield memoryview(data)
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError, zlib.error) as error:
            raise InputError(damaged(self.path, error)) from error

    def _place(self, member: zipfile.ZipInfo) -> int:
        """Return where a member's bytes begin in the file."""
        known = self._places.get(member.filename)
        if known is not None:
            return known
        with self._opened() as file:
            file.seek(member.header_offset)
            head = file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise InputError(damaged(self.path, f"{member.filename} has no header"))
        *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
        place = int(member.header_offset + _LOCAL.size + name_bytes + extra_bytes)
        if member.flag_bits & 1 or place + member.file_size > self.length:
            raise InputError(damaged(self.path, f"{member.filename} is encrypted or reaches beyond the end"))
        self._places[member.filename] = self.offset + place
        return self.offset + place

    def _opened(self) -> io.BufferedReader:
        return io.BufferedReader(Window(self.path, self.offset, self.length))


class Window(io.RawIOBase):
    """A part of a file, as a file. Raises OSError."""

    def __init__(self, path: Path, offset: int, length: int) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._offset, self._length, self._at = offset, length, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place of the part."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        if start + offset < 0:
            raise OSError(22, "a place before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the place in the part."""
        return self._at

    def readinto(self, buffer: object) -> int:
        """Fill a buffer."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        count = max(min(len(view), self._length - self._at), 0)
        self._file.seek(self._offset + self._at)
        read = self._file.readinto(view[:count]) or 0
        self._at += read
        return read

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()
