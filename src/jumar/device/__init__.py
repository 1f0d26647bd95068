"""What a device is: SoC profiles, operator support, the emulated NPU, the bridge to `torch_npu`.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.device.plan import ActiveDevice, DevicePlan
from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.device.bridge import activate, emulate

__all__ = ["ActiveDevice", "DevicePlan", "activate", "emulate"]


_HOME = {"activate": "jumar.device.bridge", "emulate": "jumar.device.bridge"}

__getattr__ = loader(__name__, __all__, _HOME)
