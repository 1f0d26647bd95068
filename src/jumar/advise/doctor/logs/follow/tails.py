"""`FileTail`, `PipeTail`: one log that grows, read as far as it is written; rotation and truncation are noticed."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

from jumar.advise.doctor.logs.engine.blocks import BLOCK_BYTES, LONGEST_LINE_BYTES, Block, last_lines
from jumar.advise.doctor.logs.engine.hits import FileReport
from jumar.advise.doctor.logs.engine.parts import report_of
from jumar.advise.doctor.logs.engine.scan import Scan
from jumar.advise.doctor.logs.engine.sieve import Sieve

MOST_BYTES = 16 * BLOCK_BYTES
"""One log may take so much of a round; the others come next."""
_MARK_BYTES = 64
"""The last bytes read: where others stand in their place, the file was written anew."""
_PATIENCE_S = 2.0
"""A last line without an end is taken as it is after so long."""

Identity = tuple[int, int]
"""Device and number of a file: what stays when it is renamed."""


class Lines:
    """The lines of one log so far. Bytes are fed as they come."""

    def __init__(self, path: Path, sieve: Sieve) -> None:
        self._scan = Scan(path, sieve)
        self._rest = b""
        self._before = b""
        self._line = 1
        self.num_lines = 0
        self.fed_at = 0.0

    @property
    def num_hits(self) -> int:
        """How many different errors there are so far."""
        return self._scan.num_hits

    @property
    def is_inside(self) -> bool:
        """Whether a traceback is open: more of it is to come."""
        return self._scan.is_waiting

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes; a line counts once its end has come."""
        self.fed_at = now
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        while len(data) - end >= LONGEST_LINE_BYTES:
            end += LONGEST_LINE_BYTES
        self._rest = data[end:]
        self._take(data[:end])

    def settle(self, now: float, *, patience_s: float = _PATIENCE_S) -> None:
        """Take the last line though it has no end, where nothing came for so long."""
        if self._rest and now - self.fed_at >= patience_s:
            rest, self._rest = self._rest, b""
            self._take(rest)

    def report(self, *, is_over: bool = False) -> FileReport:
        """Return what was found so far; `is_over`: a traceback without an end is cut off."""
        return report_of([self._scan.part(is_over=is_over)])

    def _take(self, data: bytes) -> None:
        if not data:
            return
        num_lines = data.count(b"\n")
        self._scan.take(Block(data, self._line, self._before))
        self._before = last_lines(data)
        self._line += num_lines
        self.num_lines += num_lines


class FileTail:
    """A file that grows."""

    def __init__(self, path: Path, sieve: Sieve) -> None:
        self.path = path
        self._sieve = sieve
        self.before: list[Lines] = []
        """Of the files that had this name before."""
        self.lines = Lines(path, sieve)
        self.identity: Identity | None = None
        self.offset = 0
        self._mark = b""
        self._past: list[tuple[int, bytes]] = []
        self.notes: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come."""
        return False

    def has_read(self, path: Path) -> bool:
        """Tell whether another file is what this one was before a rotation: renamed, or a copy. Raises OSError."""
        if path.parent != self.path.parent:
            return False
        with path.open("rb") as file:
            return any(
                mark and os.pread(file.fileno(), len(mark), offset - len(mark)) == mark
                for offset, mark in (*self._past, (self.offset, self._mark))
            )

    def read(self, now: float) -> int:
        """Read what is new, up to `MOST_BYTES`; return the number of bytes. A missing file has nothing new."""
        try:
            status = self.path.stat()
        except OSError:
            status = None
        if status is None or (self.identity is not None and (status.st_dev, status.st_ino) != self.identity):
            read = self._read_renamed(now)
            if status is None or read >= MOST_BYTES:
                return read
            self._forget("a new file has its name")
        if status.st_size == self.offset and self.identity is not None:
            self.lines.settle(now)
            return 0
        self.identity = (status.st_dev, status.st_ino)
        return self._read(self.path, now)

    def _read_renamed(self, now: float) -> int:
        """Read the end of the file that had this name until it was renamed, where it is still in the folder."""
        if self.identity is None:
            return 0
        try:
            with os.scandir(self.path.parent) as entries:
                inodes = [Path(entry.path) for entry in entries if entry.inode() == self.identity[1]]
            moved = next((path for path in inodes if _identity(path) == self.identity), None)
        except OSError:
            return 0
        return 0 if moved is None else self._read(moved, now)

    def _read(self, path: Path, now: float) -> int:
        total = 0
        try:
            with path.open("rb") as file:
                if self._is_other(file.fileno()):
                    self._forget("it was truncated")
                file.seek(self.offset)
                while total < MOST_BYTES and (data := file.read(BLOCK_BYTES)):
                    self.offset += len(data)
                    self._mark = (self._mark + data)[-_MARK_BYTES:]
                    total += len(data)
                    self.lines.feed(data, now)
        except OSError as error:
            note = f"{path} cannot be read ({error.strerror})."
            self.notes += [] if note in self.notes else [note]
        return total

    def _is_other(self, descriptor: int) -> bool:
        """Tell whether the file was written anew: it is shorter, or holds other bytes where reading ended."""
        if os.fstat(descriptor).st_size < self.offset:
            return True
        return os.pread(descriptor, len(self._mark), self.offset - len(self._mark)) != self._mark

    def _forget(self, why: str) -> None:
        if self.offset:
            self.lines.settle(float("inf"))
            self.before.append(self.lines)
            self.lines = Lines(self.path, self._sieve)
            self._past.append((self.offset, self._mark))
            self.notes.append(f"{self.path} begins again from line 1: {why}.")
        self.offset, self._mark, self.identity = 0, b"", None


class PipeTail:
    """Standard input, or a named pipe: read as it comes."""

    def __init__(self, path: Path, sieve: Sieve, descriptor: int) -> None:
        self.path = path
        self.lines = Lines(path, sieve)
        self.before: list[Lines] = []
        self.is_over = False
        self.notes: list[str] = []
        self._descriptor = descriptor
        self._has_begun = descriptor == 0

    def read(self, now: float) -> int:
        """Read what has come; return the number of bytes."""
        total = 0
        for data in self._ready():
            total += len(data)
            self.lines.feed(data, now)
            if total >= MOST_BYTES:
                return total
        if total == 0:
            self.lines.settle(now)
        return total

    def _ready(self) -> Iterator[bytes]:
        while not self.is_over and select.select([self._descriptor], [], [], 0)[0]:
            data = os.read(self._descriptor, BLOCK_BYTES)
            if not data:  # a named pipe without a writer has not begun yet
                self.is_over = self._has_begun
                return
            self._has_begun = True
            yield data


Tail = FileTail | PipeTail


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
