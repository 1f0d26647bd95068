"""What other processes get of npu objects: events by their handle. Tensors cannot be shared, see `reduce_tensor`."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from jumar.device.emulator.npu.streams import Event
from jumar.device.emulator.refusals import refuse

__all__ = ["rebuild_npu_event"]


def rebuild_npu_event(device: Any, handle: bytes) -> Event:
    """Return the event of a handle that another process made."""
    return Event.from_ipc_handle(device, handle)


def _reduce_event(event: Event) -> Any:
    return rebuild_npu_event, ("npu", event.ipc_handle())


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    """Return how another process makes the tensor. Raises NotImplementedError for one on the npu.

    Its memory belongs to a CPU tensor of this process and cannot be moved to memory that processes share while
    other tensors may show it too.
    """
    if tensor.device.type == "npu":
        refuse("torch_npu.multiprocessing.reductions.rebuild_npu_tensor")
    plain: Any = reductions.reduce_tensor
    return plain(tensor)


def install() -> None:
    """Let events go to other processes, and say plainly that tensors on the npu cannot."""
    ForkingPickler.register(Event, _reduce_event)
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, _reduce_tensor)
