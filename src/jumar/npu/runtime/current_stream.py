"""Which stream is current on each device, in each thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from jumar.npu.core.devices import index_from
from jumar.npu.runtime.control import device as device_block

__all__ = ["StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


class _Streams(threading.local):
    def __init__(self) -> None:
        self.current: dict[int, Any] = {}


_streams = _Streams()
MAKE_DEFAULT: list[Callable[[int], Any]] = []
"""Makes the default stream of a device: set by `streams`, which has the class."""


def default_stream(device: Any = None) -> Any:
    """Return the default stream of a device."""
    return MAKE_DEFAULT[0](index_from(device))


def current_stream(device: Any = None) -> Any:
    """Return the stream that is current on a device in this thread."""
    index = index_from(device)
    return _streams.current.get(index) or default_stream(index)


def set_stream(stream: Any) -> None:
    """Make `stream` current on its device in this thread; None changes nothing."""
    if stream is not None:
        _streams.current[stream.device_index] = stream


class StreamContext:
    """Context manager that makes a stream, and its device, current."""

    def __init__(self, stream_ctx: Any) -> None:
        self.stream = stream_ctx
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        if self.stream is None:
            return
        previous = current_stream(self.stream.device_index)
        self._stack.enter_context(device_block(self.stream.device_index))
        self._stack.callback(set_stream, previous)
        set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def stream(stream: Any) -> StreamContext:
    """Return a context manager that makes `stream` current; None changes nothing."""
    return StreamContext(stream)
