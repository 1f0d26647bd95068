"""`torch.npu.amp.GradScaler`."""

from __future__ import annotations

import torch

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("npu")`. `dynamic=False` keeps the scale fixed, as the vendor's scaler does."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        dynamic: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale after a step, unless it is fixed and no new one is given."""
        if self._dynamic or new_scale is not None:
            super().update(new_scale)
        else:
            self._per_optimizer_states.clear()
