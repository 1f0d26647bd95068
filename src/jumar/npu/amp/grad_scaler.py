"""`torch.npu.amp.GradScaler`."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state

from jumar.npu.amp.common import amp_definitely_not_available
from jumar.npu.runtime.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
)

__all__ = ["GradScaler"]

_log = logging.getLogger("torch_npu.amp")
_Base: Any = torch.amp.GradScaler


class Unscaling(_Base):  # type: ignore[misc]
    """A scaler whose `unscale_` takes the reciprocal of the scale in float32: an NPU has no float64."""

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


class GradScaler(Unscaling):
    """`torch.amp.GradScaler("npu")` with what the vendor's adds.

    `dynamic=False` keeps the scale fixed and lets every step happen. Where float16 saturates instead of giving
    Inf (Ascend910A, or a SoC switched to it), an overflow is found by the device's overflow flag, on any rank.
    What the vendor's scaler prints goes to the log `torch_npu.amp`.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        if enabled and amp_definitely_not_available():
            warnings.warn("torch_npu.amp.GradScaler is enabled, but NPU is not available. Disabling.", stacklevel=2)
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic
        self._flag_is_clear = False
        self._has_overflow = False

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or all tensors of an iterable, by the scale. Raises ValueError for one not on the npu."""
        if self._enabled and self._dynamic and not self._flag_is_clear:
            if not is_support_inf_nan():
                clear_npu_overflow_flag()
            self._flag_is_clear = True
        if self._enabled and isinstance(outputs, torch.Tensor) and outputs.device.type != "npu":
            raise ValueError("Device type of outputs should be npu.")
        return super().scale(outputs)

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> Any:
        if self._dynamic and not is_support_inf_nan():
            self._has_overflow = self._has_overflow or _on_any_rank(get_npu_overflow_flag(), found_inf.device)
        if hasattr(optimizer, "is_fused_optimizer"):
            found = self._unscale_combined(optimizer, inv_scale, found_inf)
        elif self._dynamic:
            found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        else:
            found = _unscale_always(_gradients(optimizer, allow_fp16), inv_scale)
        found.setdefault(found_inf.device, found_inf)
        if self._dynamic and any(value.item() for value in found.values()):
            self._has_overflow = True
        if self._has_overflow:
            found[found_inf.device] = torch.ones_like(found_inf)
        return found

    @torch.no_grad()
    def _unscale_combined(self, optimizer: Any, inv_scale: Any, found_inf: Any) -> Any:
        """Divide the gradients of a fused optimizer where it keeps them, float16 ones too."""
        optimizer._maybe_init_combined_params_and_grads()
        gradients = [gradient for gradient in optimizer.get_combined_grads() if gradient is not None]
        if not self._dynamic:
            return _unscale_always(gradients, inv_scale)
        for gradient in gradients:
            torch._amp_foreach_non_finite_check_and_unscale_([gradient], found_inf, inv_scale)
        return {found_inf.device: found_inf}

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
        found = sum(value.item() for value in optimizer_state["found_inf_per_device"].values())
        if self._dynamic and (found or self._has_overflow):
            _log.info("Gradient overflow. Skipping step")
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale after a step, unless it is fixed and no new one is given."""
        if not self._enabled:
            return
        before = self.get_scale()
        if new_scale is not None:
            super().update(new_scale)
        elif self._dynamic:
            self._adapt()
        self._per_optimizer_states: Any = defaultdict(_refresh_per_optimizer_state)
        self._flag_is_clear = self._has_overflow = False
        if new_scale is None and before != self.get_scale():
            direction = "reducing" if self.get_scale() < before else "increasing"
            _log.info("Loss scaler %s loss scale to %s", direction, self.get_scale())

    def _adapt(self) -> None:
        """Adapt the scale by plain operators, as the vendor's scaler does: the fused one is no kernel of every chip."""
        scale, growth = self._check_scale_growth_tracker("update")
        found = [value for state in self._per_optimizer_states.values() for value in _found(state)]
        assert found, "No inf checks were recorded prior to update."
        if any(value.item() for value in found):
            scale.mul_(self._backoff_factor)
            growth.zero_()
            return
        growth.add_(1)
        if growth.item() == self._growth_interval:
            larger = scale * self._growth_factor
            scale.copy_(larger if bool(larger.isfinite()) else scale)
            growth.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with `dynamic`; empty when the scaler is off."""
        state = super().state_dict()
        return {**state, "dynamic": self._dynamic} if self._enabled else state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state that `state_dict` returned. Raises RuntimeError for an empty one."""
        super().load_state_dict(dict(state_dict))
        if self._enabled:
            self._dynamic = bool(state_dict.get("dynamic", self._dynamic))

    get_npu_overflow_flag = staticmethod(get_npu_overflow_flag)
    clear_npu_overflow_flag = staticmethod(clear_npu_overflow_flag)


def _found(state: Mapping[str, Any]) -> list[torch.Tensor]:
    return list(state["found_inf_per_device"].values())


def _gradients(optimizer: Any, allow_fp16: bool) -> list[torch.Tensor]:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    found = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not allow_fp16 and any(gradient.dtype == torch.float16 for gradient in found):
        raise TypeError("Attempting to unscale FP16 gradients.")
    return [gradient._values() if gradient.is_sparse else gradient for gradient in found]


@torch.no_grad()
def _unscale_always(gradients: list[torch.Tensor], inv_scale: torch.Tensor) -> dict[torch.device, torch.Tensor]:
    """Divide the gradients without asking whether they are finite."""
    for gradient in gradients:
        gradient.mul_(inv_scale.to(gradient.device))
    return {}


def _on_any_rank(overflow: bool, device: torch.device) -> bool:
    if not (dist.is_available() and dist.is_initialized()):
        return overflow
    count = torch.full((), float(overflow), device=device)
    dist.all_reduce(count)
    return bool(count.item())
