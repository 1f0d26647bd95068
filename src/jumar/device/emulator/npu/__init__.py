"""`torch.npu` of the emulated device."""

from __future__ import annotations

from jumar.device.emulator.npu.control import *
from jumar.device.emulator.npu.memory import *
from jumar.device.emulator.npu.random import *


def _is_in_bad_fork() -> bool:
    """Return False: a forked process can go on using the emulated device."""
    return False
