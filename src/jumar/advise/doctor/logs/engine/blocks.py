"""`blocks`: the lines of a stream in portions, each with the lines before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

BLOCK_BYTES = 2**20
LONGEST_LINE_BYTES = 2**15
"""A longer line (a progress bar without line ends, a dumped tensor) is cut into pieces of this size."""
AROUND_LINES = 15
"""Lines before and after a block that come with it."""
_AROUND_BYTES = 2**16


class Stream(Protocol):
    """What blocks are read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of a file, as bytes."""

    data: bytes
    first_line: int
    """Number of its first line, from 1, as editors count."""
    before: bytes = b""
    """The last lines before it."""
    after: bytes = b""
    """The first lines after it."""


def blocks(stream: Stream, *, before: bytes = b"", after: bytes = b"") -> Iterator[Block]:
    """Yield the lines of a stream in blocks of about 1 MiB; `before` and `after` are what surrounds the stream."""
    line, data = 1, b""
    for following in _pieces(stream):
        if data:
            yield Block(data, line, before, first_lines(following))
            line += data.count(b"\n")
            before = last_lines(data)
        data = following
    if data:
        yield Block(data, line, before, after)


def first_lines(data: bytes) -> bytes:
    """Return the first lines of a block, as many as belong to the block before."""
    head, end = data[:_AROUND_BYTES], 0
    for _ in range(AROUND_LINES):
        end = head.find(b"\n", end) + 1
        if end == 0:
            return head
    return head[:end]


def last_lines(data: bytes) -> bytes:
    """Return the last lines of a block, as many as belong to the block after it."""
    tail = data[-_AROUND_BYTES:]
    start = len(tail) - tail.endswith(b"\n")
    for _ in range(AROUND_LINES):
        start = tail.rfind(b"\n", 0, max(start, 0))
        if start < 0:
            return tail
    return tail[start + 1 :]


def _pieces(stream: Stream) -> Iterator[bytes]:
    """Yield whole lines; of a line that is too long, pieces of one size counted from its beginning."""
    rest = b""
    while data := stream.read(BLOCK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end:
            yield from _cut(data[:end])
        rest = data[end:]
        while len(rest) >= LONGEST_LINE_BYTES:
            yield rest[:LONGEST_LINE_BYTES]
            rest = rest[LONGEST_LINE_BYTES:]
    if rest:
        yield rest


def _cut(lines: bytes) -> Iterator[bytes]:
    """Yield the lines, those that are too long in pieces."""
    start = at = 0
    while len(lines) - at > LONGEST_LINE_BYTES:
        end = lines.rfind(b"\n", at, at + LONGEST_LINE_BYTES) + 1
        if end:
            at = end
            continue
        if at > start:
            yield lines[start:at]
        start, end = at, lines.index(b"\n", at)
        while end - start >= LONGEST_LINE_BYTES:
            yield lines[start : start + LONGEST_LINE_BYTES]
            start += LONGEST_LINE_BYTES
        at = end + 1
    yield lines[start:]
