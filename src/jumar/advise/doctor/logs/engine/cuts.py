"""`parts_of`: where one large log can be cut, so that its parts are read side by side with the same result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jumar.advise.doctor.logs.engine.blocks import first_lines, last_lines
from jumar.advise.doctor.logs.tracebacks import CHAINED, HEAD, LONGEST_LINES

PART_BYTES = 2**26
_WINDOW_BYTES = 2**20
_ABOVE_BYTES = 2**22
_AROUND_BYTES = 2**17
_MOST_WINDOWS = 16
_MARKS = tuple(mark.encode() for mark in (HEAD, *CHAINED))


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `start` to `stop` of a file: whole lines."""

    path: Path
    start: int
    stop: int


def parts_of(path: Path, size_bytes: int, part_bytes: int = PART_BYTES) -> list[Part]:
    """Return the parts of a plain log. Between two of them no traceback is open. Raises OSError."""
    starts = [0]
    with path.open("rb") as file:
        while size_bytes - starts[-1] > part_bytes * 3 // 2:
            cut = _clean_cut(file, starts[-1] + part_bytes, size_bytes)
            if cut is None:
                break
            starts.append(cut)
    return [Part(path, start, stop) for start, stop in zip(starts, [*starts[1:], size_bytes], strict=True)]


def _clean_cut(file: IO[bytes], at: int, size_bytes: int) -> int | None:
    """Return the start of a line at or after `at` with no traceback near above, None where there is none for long."""
    for _ in range(_MOST_WINDOWS):
        start = max(at - _ABOVE_BYTES, 0)
        file.seek(start)
        above = file.read(at - start)
        rest = file.read(_WINDOW_BYTES)
        end = rest.find(b"\n") + 1
        if end and at + end < size_bytes and _is_clean(above + rest[:end]):
            return at + end
        at += _WINDOW_BYTES
        if at >= size_bytes:
            return None
    return None


def _is_clean(above: bytes) -> bool:
    return above.count(b"\n") > LONGEST_LINES + 2 and not any(mark in above for mark in _MARKS)


class Portion:
    """The bytes of a part as a stream, and the lines around it."""

    def __init__(self, file: IO[bytes], part: Part) -> None:
        self._file = file
        file.seek(max(part.start - _AROUND_BYTES, 0))
        self.before = last_lines(file.read(min(part.start, _AROUND_BYTES)))
        file.seek(part.stop)
        self.after = first_lines(file.read(_AROUND_BYTES)) if part.stop < os.fstat(file.fileno()).st_size else b""
        file.seek(part.start)
        self._left = part.stop - part.start

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data
