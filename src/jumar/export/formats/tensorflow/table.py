"""`read_table`: the entries of a table file in LevelDB's format, in which TensorFlow keeps a checkpoint's index.

The format (https://github.com/google/leveldb/blob/main/doc/table_format.md): blocks of entries, each with the number of
bytes that its key shares with the one before; behind a block a byte for its compression and a masked CRC-32C; an index
block with the places of the others; a footer of 48 bytes with the place of the index and a magic number.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.export.formats.tensorflow.crc32c import crc32c, unmasked
from jumar.export.formats.tensorflow.wire import varint

MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_MOST_UNPACKED = 1 << 28


def read_table(data: bytes) -> dict[bytes, bytes]:
    """Return all entries. Raises ValueError where the file is damaged."""
    if len(data) < _FOOTER_BYTES or int.from_bytes(data[-8:], "little") != MAGIC:
        raise ValueError("it has no footer")
    footer = data[-_FOOTER_BYTES:]
    _, at = varint(footer, 0)
    _, at = varint(footer, at)
    index, _ = _handle(footer, at)
    found: dict[bytes, bytes] = {}
    for _, handle in _entries(_block(data, *index)):
        place, _ = _handle(handle, 0)
        for key, value in _entries(_block(data, *place)):
            if key in found:
                raise ValueError("a name stands twice")
            found[key] = value
    return found


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + 5 > len(data):
        raise ValueError("a block reaches beyond the end")
    kind, stored = data[end], int.from_bytes(data[end + 1 : end + 5], "little")
    if crc32c([data[offset : end + 1]]) != unmasked(stored):
        raise ValueError("the checksum of a block is another")
    if kind == 0:
        return data[offset:end]
    if kind == 1:
        return _snappy(data[offset:end])
    raise ValueError(f"a block is compressed in a way {kind}")


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise ValueError("a block is cut short")
    number = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * number
    if end < 0:
        raise ValueError("a block is cut short")
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        own, at = varint(block, at)
        size, at = varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise ValueError("an entry is cut short")
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + size]
        at += size


def _snappy(data: bytes) -> bytes:
    """Unpack Snappy (https://github.com/google/snappy/blob/main/format_description.txt)."""
    length, at = varint(data, 0)
    if length > _MOST_UNPACKED:
        raise ValueError(f"a block unpacks to {length:,} bytes")
    made = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind, size = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if size > 60:
                extra = size - 60
                size = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            made += data[at : at + size]
            at += size
        else:
            at = _copy(data, at, tag, made)
        if len(made) > length:
            break
    if len(made) != length or at > len(data):
        raise ValueError("a packed block is damaged")
    return bytes(made)


def _copy(data: bytes, at: int, tag: int, made: bytearray) -> int:
    kind = tag & 3
    width = {1: 1, 2: 2, 3: 4}[kind]
    offset = int.from_bytes(data[at : at + width], "little")
    size = (tag >> 2) + 1
    if kind == 1:
        offset, size = offset | (tag >> 5) << 8, ((tag >> 2) & 7) + 4
    if not 0 < offset <= len(made) or at + width > len(data):
        raise ValueError("a packed block points before its beginning")
    for _ in range(size):
        made.append(made[-offset])
    return at + width
