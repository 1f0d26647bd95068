"""Bring up a device: `activate` gives `torch_npu` where it imports, else the emulated NPU; `DevicePlan` says which.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader
from jumar.device.plan import ActiveDevice, DevicePlan

if TYPE_CHECKING:
    from jumar.device.bridge import activate, emulate

__all__ = ["ActiveDevice", "DevicePlan", "activate", "emulate"]


_HOME = {"activate": "jumar.device.bridge", "emulate": "jumar.device.bridge"}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
