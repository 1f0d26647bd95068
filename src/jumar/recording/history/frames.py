"""The file of a history: frames that are appended, each with a checksum, so that a kill costs the last one at most.

A frame is `JMH1`, three little-endian uint32 (bytes of the header, bytes of the values, CRC-32 of both), the header
as JSON and the values as little-endian float32. Two kinds of frames:

    {"kind": "places", "number": 0, "places": [[role, owner, name, slot, shape, order], …]}
    {"kind": "step", "step": 3, "of": 0, "settings": {…}, "calls": {…}, "rng": {…}}

A step's values belong to the places of the frame `of`. `settings` and `rng` hold what changed since the step before.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

MAGIC = b"JMH1"
_LENGTHS = struct.Struct("<4sIII")
FRAME_BYTES = _LENGTHS.size
MAX_HEADER = 64 << 20
"""Bytes of a header that a reader accepts: 500,000 places take less."""


class DamagedError(Exception):
    """A frame is cut short or its checksum does not match."""


def frame(header: dict[str, Any], values: bytes = b"") -> bytes:
    """Return one frame."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return _LENGTHS.pack(MAGIC, len(text), len(values), zlib.crc32(values, zlib.crc32(text))) + text + values


def frames(file: BinaryIO) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield (header, offset of the values, bytes of the values) of each frame. Raises DamagedError at a bad one."""
    end = file.seek(0, 2)
    position = file.seek(0)
    while position < end:
        head = file.read(FRAME_BYTES)
        if len(head) < FRAME_BYTES:
            raise DamagedError
        magic, of_header, of_values, checksum = _LENGTHS.unpack(head)
        begin = position + FRAME_BYTES + of_header
        if magic != MAGIC or of_header > MAX_HEADER or begin + of_values > end:
            raise DamagedError
        text, values = file.read(of_header), file.read(of_values)
        if zlib.crc32(values, zlib.crc32(text)) != checksum:
            raise DamagedError
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DamagedError from error
        if not isinstance(header, dict):
            raise DamagedError
        yield header, begin, of_values
        position = file.seek(begin + of_values)
