"""Device-neutral PyTorch objects that need help on the emulated device: `torch.Event`, storages.

`torch.Event(device="npu")` made in C++ can be recorded but not waited for, because PyTorch's guard written in
Python has no events. Here it makes a `torch.npu.Event`, which can.
"""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.runtime.streams import Event, Stream

_PlainEvent: Any = torch.Event
_PlainStream: Any = torch.Stream


def _is_npu(device: Any) -> bool:
    return device is None or torch.device(device).type == "npu"


class _EventMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _PlainEvent)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _PlainEvent)


class _Event(_PlainEvent, metaclass=_EventMeta):  # type: ignore[misc]
    """`torch.Event`, which for the npu makes events of `torch.npu`."""

    def __new__(cls, device: Any = None, **kwargs: Any) -> Any:
        return Event(**kwargs) if _is_npu(device) else _PlainEvent(device, **kwargs)


class _StreamMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _PlainStream)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _PlainStream)


class _Stream(_PlainStream, metaclass=_StreamMeta):  # type: ignore[misc]
    """`torch.Stream`, which for the npu makes streams of `torch.npu`."""

    def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        by_number = "stream_id" in kwargs
        return _PlainStream(device, *args, **kwargs) if by_number or not _is_npu(device) else Stream(device, **kwargs)


def _storage_to_npu(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Return the storage on an npu: itself where it is there already, else a copy."""
    target = torch.device("npu", index_from(device))
    if self.device == target:
        return self
    make: Any = torch.UntypedStorage
    return make(self.nbytes(), device=target).copy_(self, non_blocking)


def _typed_to_npu(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Return the storage on an npu: itself where it is there already, else a copy."""
    moved = _storage_to_npu(self._untyped_storage, device, non_blocking)
    return self._new_wrapped_storage(moved)


def install() -> None:
    """Put the classes and methods in PyTorch's place."""
    pytorch: Any = torch
    if pytorch.Event is _PlainEvent:
        pytorch.Event, pytorch.Stream = _Event, _Stream
    for cls, move in ((pytorch.UntypedStorage, _storage_to_npu), (pytorch.TypedStorage, _typed_to_npu)):
        cls.npu = move
        cls.is_npu = property(lambda self: self.device.type == "npu")
