"""Streams and events. Work on the emulated device is done when the call returns, so streams order nothing;
they keep their identity, and events keep the host time at which they were recorded."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import Any

import torch

from jumar.device.emulator.devices import index_from
from jumar.device.emulator.npu.control import device as device_block

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]

_numbers = itertools.count(1)
_MILLISECONDS_PER_NANOSECOND = 1e-6


class Stream(torch.Stream):
    """A stream of one device. `priority` is accepted and changes nothing."""

    npu_index: int
    npu_stream: int

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        """Return a new stream of a device, or the one of that number and device."""
        made = super().__new__(cls, device="npu:0", priority=priority)
        made.npu_index = kwargs["device_index"] if "device_index" in kwargs else index_from(device)
        made.npu_stream = kwargs["stream_id"] if "stream_id" in kwargs else next(_numbers)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device whose work this stream orders."""
        return torch.device("npu", self.npu_index)

    @property
    def device_index(self) -> int:  # type: ignore[override]
        """Its logical index."""
        return self.npu_index

    @property
    def stream_id(self) -> int:  # type: ignore[override]
        """Number of the stream; 0 is the default stream."""
        return self.npu_stream

    def query(self) -> bool:
        """Return True: all work given to the stream is done."""
        return True

    def synchronize(self) -> None:
        """Return at once: all work is done."""

    def wait_event(self, event: Any) -> None:
        """Order later work after `event`, which has already happened."""

    def wait_stream(self, stream: Any) -> None:
        """Order later work after that of `stream`, which is done."""

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
        """Record `event`, or a new one, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._entered = StreamContext(self)
        self._entered.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.__exit__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.npu_index, self.npu_stream) == (other.npu_index, other.npu_stream)

    def __ne__(self, other: object) -> bool:  # torch.Stream compares the C++ stream, of which there is one
        return not self == other

    def __hash__(self) -> int:
        return hash((self.npu_index, self.npu_stream))

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} stream_id={self.npu_stream}>"


ExternalStream = Stream


class Event(torch.Event):
    """A moment in a stream. `elapsed_time` needs `enable_timing=True` on both events."""

    recorded_ns: int | None
    enable_timing: bool

    def __new__(cls, enable_timing: bool = False, *_: Any, **__: Any) -> Event:
        """Return an event that was not recorded; `blocking` and `interprocess` change nothing here."""
        made = super().__new__(cls, device="npu:0")
        made.recorded_ns, made.enable_timing = None, enable_timing
        return made

    def record(self, stream: Any = None) -> None:
        """Record the event now."""
        self.recorded_ns = time.perf_counter_ns()

    def wait(self, stream: Any = None) -> None:
        """Order later work after the event, which has already happened."""

    def query(self) -> bool:
        """Return True: whatever was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def elapsed_time(self, end_event: Event) -> float:  # type: ignore[override]
        """Return the host time from this event to `end_event`, in milliseconds.

        Raises ValueError when timing was not enabled, RuntimeError when one was not recorded.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.recorded_ns is None or end_event.recorded_ns is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event.recorded_ns - self.recorded_ns) * _MILLISECONDS_PER_NANOSECOND

    def __repr__(self) -> str:
        return "<torch.npu.Event>" if self.recorded_ns is not None else "<torch.npu.Event uninitialized>"


class _Streams(threading.local):
    def __init__(self) -> None:
        self.current: dict[int, Any] = {}


_streams = _Streams()


def default_stream(device: Any = None) -> Stream:
    """Return the default stream of a device."""
    return Stream(device_index=index_from(device), stream_id=0)


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

    def __init__(self, stream: Any) -> None:
        self.stream = stream
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


def is_current_stream_capturing() -> bool:
    """Return False: the emulated device captures no graphs."""
    return False
