"""`torch.npu.mstx`: marks and ranges that a profiler shows. The process keeps them and tells subscribers.

    with subscribe(lambda record: ...):
        with torch.npu.mstx.annotate("step"):
            ...

As with the vendor's, a wrong argument is a warning, and nothing is marked.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jumar.npu.runtime.streams import Stream

__all__ = ["annotate", "mstx"]

MAX_KEPT = 100_000
"""Records that the process keeps; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A mark, or a range that has ended. Times are `time.perf_counter_ns`."""

    message: str
    domain: str
    start_ns: int
    end_ns: int
    """Equal to `start_ns` for a mark."""
    thread_id: int
    stream_id: int | None
    """None where the caller gave no stream: the record is of the host."""
    device_index: int | None


Subscriber = Callable[[MarkRecord], None]

_kept: deque[MarkRecord] = deque(maxlen=MAX_KEPT)
_subscribers: list[Subscriber] = []
_numbers = itertools.count(1)
_open: dict[tuple[int, str], MarkRecord] = {}


class _Pushed(threading.local):
    def __init__(self) -> None:
        self.by_domain: dict[str, list[MarkRecord]] = {}


_pushed = _Pushed()


def records() -> tuple[MarkRecord, ...]:
    """Return the marks and the ended ranges of this process, oldest first."""
    return tuple(_kept)


def clear_records() -> None:
    """Forget them."""
    _kept.clear()


@contextlib.contextmanager
def subscribe(subscriber: Subscriber) -> Iterator[None]:
    """Call `subscriber` with every mark and every range that ends within the block, in all threads."""
    _subscribers.append(subscriber)
    try:
        yield
    finally:
        _subscribers.remove(subscriber)


def _begin(message: str, stream: Any, domain: str) -> MarkRecord:
    now = time.perf_counter_ns()
    where = (None, None) if stream is None else (stream.stream_id, stream.device_index)
    return MarkRecord(message, domain, now, now, threading.get_ident(), *where)


def _end(record: MarkRecord, end_ns: int) -> None:
    ended = MarkRecord(
        record.message, record.domain, record.start_ns, end_ns, record.thread_id, record.stream_id, record.device_index
    )
    _kept.append(ended)
    for subscriber in tuple(_subscribers):
        subscriber(ended)


def _complaint(function: str, message: Any, stream: Any, domain: Any) -> bool:
    """Return whether an argument is wrong, after a warning that says which."""
    wrong = ""
    if not message or not isinstance(message, str):
        wrong = "message"
    elif not domain or not isinstance(domain, str):
        wrong = "domain"
    elif stream is not None and not isinstance(stream, Stream):
        wrong = "stream"
    if wrong:
        warnings.warn(f"Invalid {wrong} for mstx.{function} function. Please provide a valid {wrong}.", stacklevel=3)
    return bool(wrong)


class mstx:
    """Marks and ranges. `domain` groups them; `stream` puts them on a stream instead of the host."""

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        """Mark this moment."""
        if not _complaint("mark", message, stream, domain):
            record = _begin(message, stream, domain)
            _end(record, record.start_ns)

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range that `range_pop` ends; return how many enclose it in this thread, -1 for a wrong argument."""
        if _complaint("range_push", message, stream, domain):
            return -1
        pushed = _pushed.by_domain.setdefault(domain, [])
        pushed.append(_begin(message, stream, domain))
        return len(pushed) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """End the last range that `range_push` began; return how many enclosed it, -1 where there is none."""
        if _complaint("range_pop", "-", None, domain):
            return -1
        pushed = _pushed.by_domain.get(domain, [])
        if not pushed:
            return -1
        _end(pushed.pop(), time.perf_counter_ns())
        return len(pushed)

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        """Begin a range; return its number for `range_end`, 0 for a wrong argument."""
        if _complaint("range_start", message, stream, domain):
            return 0
        number = next(_numbers)
        _open[number, domain] = _begin(message, stream, domain)
        return number

    @staticmethod
    def range_end(range_id: Any, domain: str = "default") -> None:
        """End the range of that number, from any thread; a number that names none does nothing."""
        if not isinstance(range_id, int):
            warnings.warn("Invalid range_id for mstx.range_end; give what mstx.range_start returned.", stacklevel=2)
            return
        record = _open.pop((range_id, domain), None)
        if record is not None:
            _end(record, time.perf_counter_ns())

    @staticmethod
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[..., Any]:
        """Return a decorator that puts each call of a function in a range."""
        return annotate(message, stream, domain)


class annotate:
    """A range as a context manager, or as a decorator that names it after the function by default."""

    def __init__(self, message: str = "", stream: Any = None, domain: str = "default") -> None:
        self.message, self.stream, self.domain = message, stream, domain
        self.range_id: int | None = None

    def __enter__(self) -> annotate:
        self.range_id = mstx.range_start(self.message, self.stream, self.domain)
        return self

    def __exit__(self, *_: object) -> None:
        range_id, self.range_id = self.range_id, None
        if range_id is not None:
            mstx.range_end(range_id, self.domain)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return `func` with each call in a range."""
        message = self.message or func.__name__

        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            with annotate(message, self.stream, self.domain):
                return func(*args, **kwargs)

        return call


mstx.annotate = annotate  # type: ignore[attr-defined]
mark, mstx_range = mstx.mark, mstx.mstx_range
range_push, range_pop = mstx.range_push, mstx.range_pop
range_start, range_end = mstx.range_start, mstx.range_end
