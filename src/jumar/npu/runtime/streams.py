"""Streams and events. Work on the emulated device is done when the call returns, so streams order nothing;
they keep their identity, and events keep the host time at which they were recorded."""

from __future__ import annotations

import ctypes
import itertools
import struct
import time
from typing import Any, NoReturn

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.runtime.current_stream import MAKE_DEFAULT, StreamContext
from jumar.npu.runtime.sync import check_synchronizing

__all__ = ["Event", "ExternalEvent", "ExternalStream", "Stream", "SyncLaunchStream"]

_numbers = itertools.count(1)
_MILLISECONDS_PER_NANOSECOND = 1e-6
_NANOSECONDS_PER_MICROSECOND = 1000
_HANDLE_BYTES = 64
_HANDLE = struct.Struct("<8sq")
_HANDLE_MARK = b"jumarevt"


class _NotRecordedError(RuntimeError, ValueError):
    """What `torch.npu.Event` raises (RuntimeError) and what `torch.Event` raises (ValueError): here they are one."""


class _StreamBase(torch.Stream):
    _entered: list[StreamContext]
    npu_index: int
    npu_stream: int
    is_sync_launch = False
    is_data_preprocess_stream = False

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        made: Any = super().__new__(cls, device="npu:0", priority=priority)
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

    @property
    def priority(self) -> NoReturn:
        """Raise RuntimeError: the vendor's streams do not tell their priority."""
        raise RuntimeError("NPU dose not support Stream.get_priority() currently.")  # the vendor's spelling

    @staticmethod
    def priority_range() -> NoReturn:
        """Raise RuntimeError: the vendor's streams do not tell their priorities."""
        raise RuntimeError("NPU does not support Stream.priority_range() currently.")

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Mark the stream as one that prepares data; the mark changes nothing here."""
        self.is_data_preprocess_stream = bool(is_data_preprocess_stream)

    def query(self) -> bool:
        """Return True: all work given to the stream is done."""
        return True

    def synchronize(self) -> None:
        """Return at once: all work is done."""
        check_synchronizing("Stream.synchronize")

    def wait_event(self, event: Any) -> None:
        """Order later work after `event`, which has already happened."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Order later work after that of `stream`, which is done."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Record `event`, or a new one, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Any:
        context = StreamContext(self)
        context.__enter__()
        self.__dict__.setdefault("_entered", []).append(context)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()

    def __eq__(self, other: object) -> bool:
        same_kind = isinstance(other, _StreamBase) and self.is_sync_launch == other.is_sync_launch
        return same_kind and (self.npu_index, self.npu_stream) == (other.npu_index, other.npu_stream)  # type: ignore[attr-defined]

    def __ne__(self, other: object) -> bool:  # torch.Stream compares the C++ stream, of which there is one
        return not self == other

    def __hash__(self) -> int:
        return hash((self.npu_index, self.npu_stream))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.{type(self).__name__} device={self.device} npu_stream={self.npu_stream:#x}>"


class Stream(_StreamBase):
    """A stream of one device. `priority` is accepted and changes nothing."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        """Return a new stream of a device, or the one that `stream_id` and `device_index` name."""
        made: Stream = super().__new__(cls, device, priority, **kwargs)
        return made


class SyncLaunchStream(_StreamBase):
    """A stream whose work is launched without the task queue, which the emulated device does not have."""

    is_sync_launch = True

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> SyncLaunchStream:
        """Return a new stream of a device."""
        made: SyncLaunchStream = super().__new__(cls, device, priority, **kwargs)
        return made


class ExternalStream(Stream):
    """A stream that another library made, by the number it has there.

    What the vendor's task queue cannot follow raises RuntimeError: synchronize, query, recording and waiting
    for events, capture.
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        """Return the stream of that number. Raises RuntimeError for a `priority`, which is the maker's to choose."""
        if kwargs.get("priority", 0):
            raise RuntimeError("Priority was explicitly set for an external stream")
        made: Any = super().__new__(cls, device, stream_id=int(stream_ptr))
        return made  # type: ignore[no-any-return]

    def _refuse(self, operation: str) -> NoReturn:
        raise RuntimeError(f"{operation} is not supported on an ExternalStream; use a torch.npu.Stream instead.")

    def query(self) -> NoReturn:
        """Raise RuntimeError."""
        self._refuse("query")

    def synchronize(self) -> NoReturn:
        """Raise RuntimeError."""
        self._refuse("synchronize")

    def record_event(self, event: Any = None) -> NoReturn:
        """Raise RuntimeError."""
        self._refuse("record_event")

    def wait_event(self, event: Any) -> NoReturn:
        """Raise RuntimeError."""
        self._refuse("wait_event")

    def wait_stream(self, stream: Any) -> NoReturn:
        """Raise RuntimeError."""
        self._refuse("wait_stream")


class Event(torch.Event):
    """A moment in a stream. `elapsed_time` needs `enable_timing=True` on both events."""

    recorded_ns: int | None
    enable_timing: bool
    interprocess: bool

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        """Return an event that was not recorded; `blocking` changes nothing here.

        Raises RuntimeError for `interprocess` beside another choice, as the vendor's events do.
        """
        if interprocess and (enable_timing or blocking):
            raise RuntimeError("Parameter interprocess cannot be specified together with other parameters.")
        made: Any = super().__new__(cls, device="npu:0")
        made.recorded_ns, made.enable_timing, made.interprocess = None, enable_timing, interprocess
        return made  # type: ignore[no-any-return]

    @property
    def npu_event(self) -> int:
        """A number that is 0 until the event is recorded."""
        return 0 if self.recorded_ns is None else id(self)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_event)

    def record(self, stream: Any = None) -> None:
        """Record the event now, in `stream` or the current one."""
        _not_external(stream, "Event.record")
        self.recorded_ns = time.perf_counter_ns()

    def wait(self, stream: Any = None) -> None:
        """Order later work after the event, which has already happened."""
        _not_external(stream, "Event.wait")

    def query(self) -> bool:
        """Return True: whatever was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def elapsed_time(self, end_event: Event) -> float:  # type: ignore[override]
        """Return the host time from this event to `end_event`, in milliseconds.

        Raises ValueError when timing was not enabled, RuntimeError (also a ValueError) when one was not recorded.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.recorded_ns is None or end_event.recorded_ns is None:
            raise _NotRecordedError("Both events must be recorded before calculating elapsed time.")
        return (end_event.recorded_ns - self.recorded_ns) * _MILLISECONDS_PER_NANOSECOND

    def recorded_time(self) -> int:
        """Return the host's clock at the record, in microseconds. Raises RuntimeError for one not recorded."""
        if self.recorded_ns is None:
            raise RuntimeError("Event must be recorded before getting recorded timestamp.")
        return self.recorded_ns // _NANOSECONDS_PER_MICROSECOND

    def ipc_handle(self) -> bytes:
        """Return 64 bytes from which another process of this machine makes the event.

        They hold the state at this call: a later record is not seen there, and nothing there waits for it.
        Raises RuntimeError for an event that was not made with `interprocess=True`.
        """
        if not self.interprocess:
            raise RuntimeError("ipc_handle needs an event made with interprocess=True.")
        return _HANDLE.pack(_HANDLE_MARK, self.recorded_ns or 0).ljust(_HANDLE_BYTES, b"\0")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Return the event that an `ipc_handle` describes. Raises RuntimeError for other bytes."""
        index_from(device)
        if len(handle) != _HANDLE_BYTES:
            raise RuntimeError(
                f"aclrtIpcEventHandle expects byte-like object of size {_HANDLE_BYTES}, but got {len(handle)}"
            )
        mark, recorded_ns = _HANDLE.unpack_from(handle)
        if mark != _HANDLE_MARK:
            raise RuntimeError("this handle was not made by an event of the emulated NPU.")
        made = cls(interprocess=True)
        made.recorded_ns = recorded_ns or None
        return made

    def __repr__(self) -> str:
        return f"<torch_npu.npu.{type(self).__name__}{'' if self.npu_event else ' uninitialized'}>"


class ExternalEvent(Event):
    """An event that may be waited for before it is recorded, and is reset before it is used again."""

    def __new__(cls) -> ExternalEvent:
        """Return an event that was not recorded."""
        made: Any = super().__new__(cls)
        return made  # type: ignore[no-any-return]

    def reset(self, stream: Any = None) -> None:
        """Forget the record, so that the event can be used again."""
        _not_external(stream, "ExternalEvent.reset")
        self.recorded_ns = None


def _not_external(stream: Any, operation: str) -> None:
    if isinstance(stream, ExternalStream):
        raise RuntimeError(f"{operation} is not supported on an ExternalStream; use a torch.npu.Stream instead.")


def erase_stream(tensor: Any, stream: Any) -> None:
    """Take back `tensor.record_stream(stream)`, which held nothing here. Raises TypeError for other arguments."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tensor should be torch.Tensor, could not be {type(tensor)}")
    if not isinstance(stream, Stream):
        raise TypeError(f"stream should be torch_npu.npu.Stream, could not be {type(stream)}")


def _default(index: int) -> Stream:
    return Stream(device_index=index, stream_id=0)


MAKE_DEFAULT.append(_default)
