"""`torch.npu.amp`: mixed precision on the npu."""

from __future__ import annotations

from jumar.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from jumar.npu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
