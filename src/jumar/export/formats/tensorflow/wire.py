"""`fields`: the fields of a protobuf message (https://protobuf.dev/programming-guides/encoding/), and `varint`."""

from __future__ import annotations

from collections.abc import Iterator


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place and the place behind it. Raises ValueError."""
    value = 0
    for place in range(10):
        if at >= len(data):
            raise ValueError("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at
    raise ValueError("a number is too long")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: whole numbers (fixed ones unsigned), or bytes. Raises ValueError."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = varint(data, at)
        elif wire in {1, 5}:
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of kind {wire}")
        if at + size > len(data):
            raise ValueError("a field is cut short")
        content = data[at : at + size]
        at += size
        yield key >> 3, content if wire == 2 else int.from_bytes(content, "little")
