"""glibc's `mallopt` (mallopt(3)): settings of the process's allocator."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PERTURB = -6
_FILLING = 0x01
"""What is freed is filled with this byte, what is handed out with its complement: two odd numbers in every dtype."""

_lock = threading.Lock()
_depth = 0


@functools.cache
def mallopt() -> Callable[[int, int], int] | None:
    """Return glibc's mallopt; None for another C library."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - only glibc has it
        found = library.mallopt
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes, found.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    result: Callable[[int, int], int] = found
    return result


@contextmanager
def perturbed() -> Iterator[bool]:
    """Let no freed memory keep its values, and give whether that is so: with glibc only.

    Blocks so large that they are mapped afresh hold zeros. May be nested and used in several threads.
    """
    global _depth  # noqa: PLW0603 - the filling is the process's, and so is its state
    call = mallopt()
    if call is None:
        yield False
        return
    with _lock:
        _depth += 1
        call(_PERTURB, _FILLING)
    try:
        yield True
    finally:
        with _lock:
            _depth -= 1
            if not _depth:
                call(_PERTURB, 0)
