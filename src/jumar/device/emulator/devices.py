"""Logical device indices: `npu:0` to `npu:N-1` over the one physical device PyTorch knows."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.state import CURRENT, STATE


def index_from(device: Any) -> int:
    """Return the logical index that an index, a name, a torch.device or None (the current one) means.

    Raises RuntimeError for an index that there is not, ValueError for a device of another type.
    """
    if device is None:
        return CURRENT.device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "npu":
            raise ValueError(f"Expected an npu device, but got: {device}")
        index = CURRENT.device if device.index is None else device.index
    else:
        index = int(device)
    if not 0 <= index < STATE.num_devices:
        raise RuntimeError(
            f"Invalid NPU device id {index}: there are {STATE.num_devices} devices, npu:0 to npu:{STATE.num_devices - 1}."
        )
    return index


def set_current(index: int) -> None:
    """Make the logical device `index` current in this thread."""
    CURRENT.device = index
