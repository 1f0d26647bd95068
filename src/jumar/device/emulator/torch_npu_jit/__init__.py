"""`torch_npu.jit`."""

from __future__ import annotations

from jumar.device.emulator.torch_npu_jit.register_fusion_pattern import optimize

__all__ = ["optimize"]
