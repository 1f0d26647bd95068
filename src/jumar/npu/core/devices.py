"""Logical device indices: `npu:0` to `npu:N-1` over the one physical device PyTorch knows.

C++ sees `npu:0` only: PyTorch's Python device guard reports one device, and its backward asserts on an
index above 0. So the logical index is kept per storage (`memory.INDEX_OF_STORAGE`), and everything that
shows or compares devices in Python is taught to look there, once an index above 0 is used.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from jumar.npu.core import single_device
from jumar.npu.core.state import CURRENT, STATE

VISIBLE_DEVICES = "ASCEND_RT_VISIBLE_DEVICES"
EXPLICIT_ZERO = 127
"""Index that stands for an `npu:0` the caller wrote; plain 0 may come from C++, which knows no other."""


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
            raise ValueError(f"Expected a npu device, but got: {device}")
        index = CURRENT.device if device.index is None else device.index
    else:
        index = int(device)
    count = num_visible()
    if not 0 <= index < count:
        names = f"npu:0 to npu:{count - 1}" if count else f"none is visible: see {VISIBLE_DEVICES}"
        raise RuntimeError(f"Invalid NPU device id {index}: there are {count} devices, {names}.")
    return index


def num_visible() -> int:
    """Return how many devices the environment leaves visible.

    As on the real device, the list is read up to the first number that is no device or does not rise.
    """
    text = os.environ.get(VISIBLE_DEVICES)
    if text is None:
        return STATE.num_devices
    last, count = -1, 0
    for part in text.split(","):
        if not part.isdecimal() or not last < int(part) < STATE.num_devices:
            break
        last, count = int(part), count + 1
    return count


def index_of_argument(device: Any, own: int | None) -> int | None:
    """Return the logical index that an operator's `device` argument means; `own` is that of its tensors."""
    if device is None or device.type != "npu":
        return own if device is None and own is not None else CURRENT.device
    if device.index is None:
        return CURRENT.device
    if device.index == EXPLICIT_ZERO:
        return 0
    if device.index:
        use_multiple()
        return index_from(device)
    if own is not None:
        return own
    return CURRENT.device if CURRENT.last is None else CURRENT.last


def set_current(index: int) -> None:
    """Make the logical device `index` current in this thread.

    Raises RuntimeError where the thread is held to another.
    """
    single_device.bind(index)
    if index:
        use_multiple()
    CURRENT.device = index
    CURRENT.last = None


def use_multiple() -> None:
    """Go over to several logical devices, for the rest of the process."""
    if STATE.multiple:
        return
    STATE.multiple = True
    STATE.refresh()
    for teach in STATE.on_multiple:
        teach()
