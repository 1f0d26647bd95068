"""`torch.npu.utils`: the vendor keeps the device calls here too."""

from __future__ import annotations

from typing import Any

from jumar.device.emulator.devices import index_from
from jumar.device.emulator.npu.control import (
    current_device,
    device,
    device_of,
    is_bf16_supported,
    set_device,
    synchronize,
)
from jumar.device.emulator.npu.streams import StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "is_bf16_supported",
    "is_support_inf_nan",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


def is_support_inf_nan() -> bool:
    """Return True: the emulated device computes in IEEE arithmetic, with Inf and NaN."""
    return True


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the logical index of `device`, as torch.cuda._utils._get_device_index does."""
    if allow_cpu and str(device) == "cpu":
        return -1
    if device is None and not optional:
        raise ValueError("Expected a torch.device with a specified index or an integer, but got: None")
    return index_from(device)
