"""A file that HDF5 writes to, which never fails towards HDF5."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any


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
