"""`Tolerant`: a stream that ends where it can no longer be read, and says why. Unpacking of single streams."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any, cast

from jumar.advise.doctor.logs.engine.blocks import Stream
from jumar.base.text import size_text

SPARE_BYTES, SPARE_FACTOR = 2**32, 200
"""What is packed may unpack to so many bytes, and so many times its own; logs take 5 to 50 times."""
_PORTION_BYTES = 2**16
"""Read at once from an unpacker: what comes before a damaged place is not lost with it."""
_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError, NotImplementedError, RuntimeError)
"""What the unpackers of the standard library and of pyarrow raise for damaged data."""
_CODECS = (
    ("gzip", b"\x1f\x8b\x08"), ("zstd", b"\x28\xb5\x2f\xfd"), ("bzip2", b"BZh"), ("xz", b"\xfd7zXZ\0"),
    ("lzma", b"\x5d\0\0"),
)  # fmt: skip


class Tolerant:
    """A stream over another one. Where that raises, this one ends, and `problem` is part of a sentence."""

    def __init__(self, inner: Stream, *, spent: Callable[[], int] | None = None) -> None:
        self._inner = inner
        self._spent = spent
        self._ahead = b""
        self._is_at_end = False
        self.num_read = 0
        """Bytes that came from the inner stream."""
        self.problem = ""

    def read(self, size: int = -1, /) -> bytes:
        """Return `size` bytes, less only at the end; all that is left for a negative size."""
        parts = [self._ahead]
        left = (size if size >= 0 else sys.maxsize) - len(self._ahead)
        while left > 0 and not self._is_at_end:
            part = self._portion(left)
            left -= len(part)
            parts.append(part)
        data = b"".join(parts)
        if left < 0:
            data, self._ahead = data[:size], data[size:]
        else:
            self._ahead = b""
        return data

    def peek(self, size: int) -> bytes:
        """Return the next bytes, which stay to be read."""
        self._ahead = self.read(max(size, len(self._ahead)))
        return self._ahead[:size]

    def push_back(self, data: bytes) -> None:
        """Put bytes before those that come next."""
        self._ahead = data + self._ahead

    def _portion(self, size: int) -> bytes:
        try:
            part = self._inner.read(min(size, _PORTION_BYTES if self._spent else size))
        except _ERRORS as error:
            self.problem = reason(error)
            part = b""
        self.num_read += len(part)
        if self._spent is not None and self.num_read > SPARE_BYTES + SPARE_FACTOR * self._spent():
            self.problem = f"it unpacks to more than {size_text(self.num_read)}, which no log does"
            part = b""
        self._is_at_end = not part
        return part


class _File(io.RawIOBase):
    """A stream as a file, for the unpackers."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Portions:
    """An unpacker of the standard library, read by what it has at hand."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        data: bytes = self._file.read1(size)
        return data


class _Utf8:
    """A stream of UTF-16 as UTF-8."""

    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")

    def read(self, size: int, /) -> bytes:
        while data := self._inner.read(max(size // 2, 2)):
            if text := self._decoder.decode(data):
                return text.encode("utf-8", "replace")
        return self._decoder.decode(b"", final=True).encode("utf-8", "replace")


def codec_of(head: bytes) -> str:
    """Return what a stream with these first bytes is packed with, empty where it is not."""
    return next((name for name, magic in _CODECS if head.startswith(magic)), "")


def unpacked(stream: Tolerant, codec: str) -> Tolerant:
    """Return the stream unpacked."""
    start = stream.num_read
    inner = _unpacker(_File(stream), codec)
    return Tolerant(inner, spent=lambda: stream.num_read - start)


def _unpacker(file: _File, codec: str) -> Stream:
    if codec == "gzip":
        return _Portions(gzip.GzipFile(fileobj=file))
    if codec == "bzip2":
        return _Portions(bz2.BZ2File(file))
    if codec in ("xz", "lzma"):
        return _Portions(lzma.LZMAFile(cast("IO[bytes]", file)))
    if sys.version_info >= (3, 14):
        zstd = import_module("compression.zstd")
        return _Portions(zstd.ZstdFile(file))
    arrow = import_module("pyarrow")
    opened: Stream = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")
    return opened


def as_utf_8(stream: Tolerant) -> Tolerant:
    """Return the stream so that it reads as UTF-8, where its first bytes say that it is UTF-16."""
    head = stream.peek(1024)
    if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return stream
    try:
        text = head[: len(head) // 2 * 2].decode("utf-16")
    except UnicodeDecodeError:  # bytes that are no text
        return stream
    return Tolerant(_Utf8(stream)) if "\n" in text or text.isascii() else stream


def reason(error: Exception) -> str:
    """Return why something cannot be read, as part of a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text.rstrip(".").splitlines()[0] if text.strip() else type(error).__name__
