"""`unscale_` of the vendor's scalers, which takes the reciprocal of the scale in float32: an NPU has no float64."""

from __future__ import annotations

from typing import Any

import torch
from torch.amp.grad_scaler import OptState

_Base: Any = torch.amp.GradScaler


class Unscaling(_Base):  # type: ignore[misc]
    """A scaler whose `unscale_` keeps to float32."""

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the scale, once before each step.

        Raises RuntimeError for a second call before `update`, and after `step`.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.float().reciprocal()
        found = torch.full((), 0.0, dtype=torch.float32, device=self._scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED
