"""A file that HDF5 writes to, which never fails towards HDF5."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = 4096
"""Bytes to whose multiples memory, places and sizes must be aligned to be written past the system's cache."""


class Target(io.RawIOBase):
    """A file that never fails towards HDF5: the first error is kept, and what follows goes nowhere.

    HDF5 crashes the process when the flush of a file fails (1.14, a full disk: a segmentation fault
    at the next collection of its objects), which must not happen to the run that is recorded.
    """

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._position = self._end = 0
        self.error: OSError | None = None

    def _attempt(self, work: Callable[[], object]) -> None:
        if self.error is None:
            try:
                work()
            except OSError as error:
                self.error = error

    def write(self, data: Any) -> int:
        """Write all of `data` at the position, or nothing once there was an error."""
        view = memoryview(data).cast("B")
        self._attempt(lambda: write_all(self._raw.fileno(), view, self._position))
        self._position += len(view)
        self._end = max(self._end, self._position)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`; zeros where nothing could be written."""
        view = memoryview(buffer).cast("B")
        found = os.pread(self._raw.fileno(), len(view), self._position)
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._position += len(view)
        return len(view)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self._end = self._position if size is None else size
        self._attempt(lambda: os.ftruncate(self._raw.fileno(), self._end))
        return self._end

    def readable(self) -> bool:
        """HDF5 reads back what it wrote."""
        return True

    def writable(self) -> bool:
        """HDF5 writes."""
        return True

    def seekable(self) -> bool:
        """HDF5 writes at positions."""
        return True


def write_all(file: int, data: Any, place: int) -> None:
    """Write all of `data` (bytes) at `place` of an open file. Raises OSError."""
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.pwrite(file, view[done:], place + done)


class PageWriter:
    """Writes whole pages of a file past the system's cache, where the file system lets it, and the rest through it.

    What is written once and not read again need not be copied to that cache: a quarter of the time (measured).
    """

    def __init__(self, path: Path, file: int) -> None:
        self._file = file
        self._direct = _open_direct(path)

    def write(self, data: memoryview, address: int, place: int) -> None:
        """Write `data`, which lies at `address`, at `place` of the file. Raises OSError (a full disk)."""
        size = len(data) // PAGE * PAGE
        if self._direct is None or not size or address % PAGE or place % PAGE:
            write_all(self._file, data, place)
            return
        try:
            write_all(self._direct, data[:size], place)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.close()  # this file system wants another alignment
            size = 0
        write_all(self._file, data[size:], place + size)

    def close(self) -> None:
        """Write nothing past the cache any more."""
        if self._direct is not None:
            os.close(self._direct)
            self._direct = None


def _open_direct(path: Path) -> int | None:
    flag = getattr(os, "O_DIRECT", 0)
    if not flag:
        return None
    try:
        return os.open(path, os.O_WRONLY | flag)
    except OSError:  # not every file system knows this
        return None
