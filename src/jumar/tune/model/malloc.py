"""glibc's `mallopt` (mallopt(3)): settings of the process's allocator, and keeping freed memory with the process.

A large block is mapped afresh for each allocation and given back when it is freed, so that every call of a model
faults its pages in anew. While a function of the policy `keep` runs, blocks come from the heap instead, whatever
their size, and the heap is never trimmed.

The thresholds belong to the process. Outside such functions the largest blocks (more than 32 MiB, the limit of
glibc's own growing threshold) are mapped as before; the heap stays untrimmed, because trimming it between two calls
would undo what the policy is for. A plan without the policy that runs in the same process gives the kept memory back
first, once, and has the heap trimmed from then on as glibc would, so that a comparison of the two is one of each as
it runs alone; the plan that keeps memory then pays for its pages again in its next call, so that such comparisons
take several calls a sample.

A training step has no function around it: PyTorch calls its backward. A process whose step is to keep memory
keeps it for good (`keep_from_now_on`).
"""

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


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_NEVER = 2**31 - 1
_LARGEST_DYNAMIC = 32 << 20
"""glibc raises its own mapping threshold up to this (`DEFAULT_MMAP_THRESHOLD_MAX`)."""
_DEFAULT_MMAP_MAX = 65536

_keeping_lock = threading.Lock()
_keeping_depth = 0
_is_kept = False
"""Whether memory may be kept that nobody has given back since."""


def can_keep() -> bool:
    """Tell whether this process can keep freed memory: with glibc only."""
    return mallopt() is not None


@contextmanager
def kept() -> Iterator[None]:
    """Let freed memory stay with the process while this is entered. May be nested and used in several threads."""
    global _keeping_depth, _is_kept  # noqa: PLW0603 - malloc's thresholds are the process's, and so is their state
    with _keeping_lock:
        _keeping_depth += 1
        _is_kept = True
        if _keeping_depth == 1:
            _set(_TRIM_THRESHOLD, _NEVER)
            _set(_MMAP_MAX, 0)
    try:
        yield
    finally:
        with _keeping_lock:
            _keeping_depth -= 1
            if _keeping_depth == 0:
                _set(_MMAP_THRESHOLD, _LARGEST_DYNAMIC)
                _set(_MMAP_MAX, _DEFAULT_MMAP_MAX)


def keep_from_now_on() -> None:
    """Let freed memory stay with this process for good; nothing gives it back."""
    global _keeping_depth, _is_kept  # noqa: PLW0603 - malloc's thresholds are the process's, and so is their state
    with _keeping_lock:
        _keeping_depth += 1
        _is_kept = True
        _set(_TRIM_THRESHOLD, _NEVER)
        _set(_MMAP_MAX, 0)


def give_back() -> None:
    """Give what `kept` kept back to the system, if anything; nothing while a function keeps memory."""
    global _is_kept  # noqa: PLW0603 - as above
    if not _is_kept:
        return
    with _keeping_lock:
        if _keeping_depth == 0:
            _is_kept = False
            _set(_TRIM_THRESHOLD, 2 * _LARGEST_DYNAMIC)  # what glibc's own growing threshold comes to
            ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def _set(what: int, value: int) -> None:
    call = mallopt()
    if call is not None:
        call(what, value)
