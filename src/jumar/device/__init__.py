"""What a device is: SoC profiles, operator support, the emulated NPU, the bridge to `torch_npu`.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.device.plan import ActiveDevice, DevicePlan

if TYPE_CHECKING:
    from jumar.device.bridge import activate, emulate

__all__ = ["ActiveDevice", "DevicePlan", "activate", "emulate"]


def __getattr__(name: str) -> Any:
    if name not in ("activate", "emulate"):
        raise AttributeError(f"module 'jumar.device' has no attribute {name!r}; it has {', '.join(__all__)}")
    import importlib

    return getattr(importlib.import_module("jumar.device.bridge"), name)
