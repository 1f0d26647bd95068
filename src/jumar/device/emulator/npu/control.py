"""Which devices there are and which one is current."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.devices import index_from, num_visible, set_current
from jumar.device.emulator.state import CURRENT

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_amp_supported_dtype",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Return whether a device is visible: the emulated ones are always there."""
    return num_visible() > 0


def is_initialized() -> bool:
    """Return True: there is nothing to initialise."""
    return True


def init() -> None:
    """Do nothing: there is nothing to initialise."""


def device_count() -> int:
    """Return the number of logical devices that ASCEND_RT_VISIBLE_DEVICES leaves visible."""
    return num_visible()


def current_device() -> int:
    """Return the index of the calling thread's current device."""
    return CURRENT.device


def set_device(device: Any) -> None:
    """Make `device` (index, name or torch.device) current in this thread.

    Raises RuntimeError for an index that there is not.
    """
    set_current(index_from(device))


def synchronize(device: Any = None) -> None:
    """Return at once: kernels of the emulated device finish before they return."""
    index_from(device)


def is_bf16_supported() -> bool:
    """Return whether the device computes in bfloat16."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the types autocast may use here."""
    return [torch.float16, torch.bfloat16, torch.float32]


def can_device_access_peer(device: Any, peer: Any) -> bool:
    """Return whether one device can read another's memory: every other one can."""
    return index_from(device) != index_from(peer)


class device:
    """Context manager that makes a device current within the block; None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_from(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = CURRENT.device
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of `tensor` current; nothing for a tensor that is not on an npu."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "npu" else None)
