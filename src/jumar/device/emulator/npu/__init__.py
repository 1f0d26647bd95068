"""`torch.npu` of the emulated device."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.npu import amp, utils
from jumar.device.emulator.npu.autocast import *
from jumar.device.emulator.npu.config import *
from jumar.device.emulator.npu.control import *
from jumar.device.emulator.npu.legacy import *
from jumar.device.emulator.npu.memory import *
from jumar.device.emulator.npu.properties import *
from jumar.device.emulator.npu.random import *
from jumar.device.emulator.npu.streams import *

OutOfMemoryError = torch.OutOfMemoryError


def _is_in_bad_fork() -> bool:
    """Return False: a forked process can go on using the emulated device."""
    return False


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        from jumar.device.emulator.rng import default_generators

        return default_generators()
    raise AttributeError(
        f"module 'torch.npu' has no attribute {name!r} on the emulated NPU; what it has is in `dir(torch.npu)`"
    )
