"""`torch_npu.jit`."""

from __future__ import annotations

from jumar.npu.api.jit.register_fusion_pattern import optimize

__all__ = ["optimize"]
