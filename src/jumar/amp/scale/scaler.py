"""`LossScaler`: one loss's scale from step to step, and whether a step must be skipped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from jumar.amp.hooks import OverflowFlag, hooks_of
from jumar.amp.scale.scales import FIRST_DYNAMIC_SCALE, GREATEST, DynamicLossScale, FixedLossScale


class LossScaler:
    """One loss's scale.

    `how` is a number (never skips a step, as Apex's), "dynamic" (Apex's numbers), or a way with numbers of its own.
    `min_loss_scale` and `max_loss_scale` limit "dynamic". The overflow flags of `device_types` are asked where a chip
    saturates.
    """

    def __init__(
        self,
        how: float | str | DynamicLossScale | FixedLossScale,
        min_loss_scale: float | None = None,
        max_loss_scale: float = GREATEST,
        device_types: Iterable[str] = (),
    ) -> None:
        self._rule = _dynamic(how, min_loss_scale, max_loss_scale)
        self.dynamic = self._rule is not None
        fixed = how.loss_scale if isinstance(how, FixedLossScale) else how
        self._scale = float(self._rule.init_loss_scale if self._rule else fixed)  # type: ignore[arg-type]
        self.checks = self.dynamic or (isinstance(how, FixedLossScale) and how.drop_overflow_update)
        """Whether gradients are looked at, and steps with NaN or Inf skipped."""
        self._device_types = tuple(device_types)
        self._unskipped = 0
        self._overflowed = False
        self.num_skipped_in_a_row = 0
        self.waiting: list[Any] = []
        """Optimizers whose gradients were looked at, while the decision about the step was put off."""

    def loss_scale(self) -> float:
        """Return the scale that the next loss is multiplied with."""
        return self._scale

    @property
    def unskipped(self) -> int:
        """Number of steps without overflow since the scale last changed."""
        return self._unskipped

    def _flags(self) -> list[OverflowFlag]:
        found = [hooks_of(device_type).flag for device_type in self._device_types]
        return [flag for flag in found if flag is not None and flag.saturates()]

    def clear_overflow_state(self) -> None:
        """Forget overflows seen so far, the chip's flag included; not while a decision is put off."""
        if self.waiting:
            return
        self._overflowed = False
        for flag in self._flags():
            flag.clear()

    def flag_is_up(self) -> bool:
        """Return whether a chip that saturates says that something overflowed."""
        return any(flag.is_up() for flag in self._flags())

    def look_at(self, gradients: Sequence[torch.Tensor], *, elsewhere: bool = False) -> bool:
        """Return whether one of the gradients has NaN or Inf, or the chip's flag is up; the scaler notes it.

        `elsewhere`: another rank's flag is up. A scaler that never skips looks at nothing and returns False.
        """
        if not self.checks:
            return False
        found = elsewhere or self.flag_is_up() or not all_finite(gradients)
        self._overflowed |= found
        return found

    def update_scale(self) -> bool:
        """Move a dynamic scale at the end of a step; return whether the step must be skipped."""
        self.waiting.clear()
        skip, self._overflowed = self.checks and self._overflowed, False
        self.num_skipped_in_a_row = self.num_skipped_in_a_row + 1 if skip else 0
        rule = self._rule
        if rule is None:
            return skip
        if skip:
            self._scale = max(self._scale / rule.scale_factor, rule.min_loss_scale or 0.0)
            self._unskipped = 0
            return True
        self._unskipped += 1
        if self._unskipped >= rule.scale_window:
            self._scale = min(rule.max_loss_scale, self._scale * rule.scale_factor)
            self._unskipped = 0
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and the number of steps since it last changed."""
        return {"loss_scale": self._scale, "unskipped": self._unskipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`'s values. Raises KeyError when they are not there."""
        self._scale, self._unskipped = float(state["loss_scale"]), int(state["unskipped"])

    def grad_scaler_state(self) -> dict[str, Any]:
        """Return the state in the words of `torch.amp.GradScaler.load_state_dict`."""
        rule = self._rule or DynamicLossScale()
        return {
            "scale": self._scale,
            "growth_factor": rule.scale_factor,
            "backoff_factor": 1 / rule.scale_factor,
            "growth_interval": rule.scale_window,
            "_growth_tracker": self._unskipped,
        }


def _dynamic(how: Any, least: float | None, greatest: float) -> DynamicLossScale | None:
    if isinstance(how, DynamicLossScale):
        return how if least is None else dataclasses.replace(how, min_loss_scale=least)
    if how != "dynamic":
        return None
    first = min(greatest, FIRST_DYNAMIC_SCALE)
    return DynamicLossScale(init_loss_scale=first, min_loss_scale=least, max_loss_scale=greatest)


def all_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether no element is NaN or Inf; the host waits for each device once."""
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for tensor in tensors:
        by_device.setdefault(tensor.device, []).append(torch.isfinite(tensor).all())
    return all(bool(torch.stack(found).all()) for found in by_device.values())
