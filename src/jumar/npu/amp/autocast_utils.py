"""Old names of the autocast switches of this device."""

from __future__ import annotations

import torch

from jumar.npu.runtime.control import get_amp_supported_dtype

__all__ = [
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def is_autocast_enabled() -> bool:
    """Return whether autocast is on for the npu in this thread."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    """Turn autocast for the npu on or off in this thread."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """Return the type autocast casts to."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the type autocast casts to."""
    torch.set_autocast_dtype("npu", dtype)
