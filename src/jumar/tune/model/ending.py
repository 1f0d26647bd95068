"""Ending in order (SIGTERM ends a run as Ctrl-C does), and environment variables that are set for a while."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTIONS = ("Ctrl-C", "SIGTERM")
"""What `TuneResult.stopped_by` says after one: such a run did not come to its own end."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came. A KeyboardInterrupt, so that whatever cleans up after Ctrl-C does so here."""

    def __init__(self) -> None:
        super().__init__("SIGTERM")


_has_come = threading.Event()
"""Whether SIGTERM came within `ending_in_order`."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Turn the first SIGTERM into `Terminated`; further ones, and Ctrl-C after it, end the process at once.

    Has no effect outside of the main thread, where signals cannot be caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _has_come.clear()


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Put the handler of SIGTERM back that was there before; for calling what sets one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def sigterm_told() -> Iterator[None]:
    """Raise `Terminated` again where what is called within makes a mere KeyboardInterrupt of it, as Ray's core does."""
    try:
        yield
    except KeyboardInterrupt as error:
        if _has_come.is_set() and not isinstance(error, Terminated):
            raise Terminated from error
        raise


def reason(error: KeyboardInterrupt) -> str:
    """Return what stopped the run, as `TuneResult.stopped_by` says it: `SIGTERM` or `Ctrl-C`."""
    return "SIGTERM" if isinstance(error, Terminated) else "Ctrl-C"


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _has_come.set()
    raise Terminated


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Give an environment variable this value while this is entered; then it is as it was, set or not."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
