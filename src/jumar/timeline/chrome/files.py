"""The bytes of a trace file in blocks, plain or packed with gzip, whatever its name ends in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from jumar.base.errors import InputError
from jumar.timeline.model.source import OnProgress

BLOCK = 1 << 20
PACKED = b"\x1f\x8b"
STEP = 64
"""Bytes of packed text that are lost at most before a damage."""
GZIP = 31
"""zlib's window bits for gzip."""


def blocks(path: Path, lost: list[str], on_progress: OnProgress | None = None, size: int = 0) -> Iterator[bytes]:
    """Yield the content of a file in blocks of at most `size` bytes, by default `BLOCK`.

    What cannot be unpacked is a sentence in `lost`.

    Raises InputError where the file cannot be opened or read.
    """
    size = size or BLOCK
    try:
        with path.open("rb") as file:
            total, packed = path.stat().st_size, file.read(2) == PACKED
            file.seek(0)
            raw = _raw(file.read, total, on_progress, size)
            yield from _unpacked(raw, total, lost, size) if packed else raw
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path} cannot be read ({reason}): name a trace file that this user may read") from None


def head(path: Path, size: int = 1 << 16) -> bytes:
    """Return the first bytes of the content, or fewer where the file is damaged."""
    return next(blocks(path, [], size=size), b"")


def _raw(read: Callable[[int], bytes], total: int, on_progress: OnProgress | None, size: int) -> Iterator[bytes]:
    done = 0
    while block := read(size):
        done += len(block)
        yield block
        if on_progress:
            on_progress(done, max(total, done))


def _unpacked(raw: Iterator[bytes], total: int, lost: list[str], size: int) -> Iterator[bytes]:
    """Yield the content of the members of a gzip file, one after the other."""
    unpacker, taken, is_open = zlib.decompressobj(GZIP), 0, False
    for block in raw:
        rest = block
        while rest and (is_open or rest.strip(b"\0")):  # some writers fill the last block with zeros
            unpacker = unpacker if is_open else zlib.decompressobj(GZIP)
            before = unpacker.copy()
            try:
                content = unpacker.decompress(rest, size)
            except zlib.error as error:
                yield from _in_small_pieces(before, rest, size)
                lost.append(f"the packed file (gzip) is damaged after {taken} of {total} bytes ({error})")
                return
            left = unpacker.unconsumed_tail or unpacker.unused_data
            taken, rest, is_open = taken + len(rest) - len(left), left, not unpacker.eof
            if content:
                yield content
    if is_open:
        if content := unpacker.flush():
            yield content
        lost.append("the packed file (gzip) ends before its own end mark: what was packed after it is missing")


def _in_small_pieces(unpacker: zlib._Decompress, packed: bytes, size: int) -> Iterator[bytes]:
    """Yield what can be unpacked before the damage: zlib drops all that one call gave when it ends in an error."""
    content = b""
    with suppress(zlib.error):
        for start in range(0, len(packed), STEP):
            content += unpacker.decompress(packed[start : start + STEP])
            if len(content) >= size:
                yield content
                content = b""
    if content:
        yield content
