"""Send events of the npu to other processes by their handle."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from jumar.npu.runtime.streams import Event

__all__ = ["rebuild_npu_event"]


def rebuild_npu_event(device: Any, handle: bytes) -> Event:
    """Return the event of a handle that another process made."""
    return Event.from_ipc_handle(device, handle)


def _reduce_event(event: Event) -> Any:
    return rebuild_npu_event, ("npu", event.ipc_handle())


def install() -> None:
    """Let events go to other processes; tensors go there by `jumar.npu.memory.sharing`."""
    ForkingPickler.register(Event, _reduce_event)
