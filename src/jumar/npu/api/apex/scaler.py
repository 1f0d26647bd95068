"""The loss scale: static, or doubled after 2,000 steps without overflow and halved at each overflow."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch

from jumar.npu.api.apex.levels import FIRST_DYNAMIC_SCALE
from jumar.npu.runtime import overflow

_FACTOR = 2.0
_WINDOW = 2000
"""Steps without overflow before a dynamic scale grows."""


class LossScaler:
    """One loss's scale. `loss_scale` is a number, or "dynamic"."""

    def __init__(self, loss_scale: float | str, min_loss_scale: float | None, max_loss_scale: float) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._scale = min(max_loss_scale, FIRST_DYNAMIC_SCALE) if self.dynamic else float(loss_scale)
        self._min, self._max = min_loss_scale, max_loss_scale
        self._unskipped = 0
        self._overflowed = False

    def loss_scale(self) -> float:
        """Return the scale that the next loss is multiplied with."""
        return self._scale

    def clear_overflow_state(self) -> None:
        """Forget overflows seen so far, the chip's flag included."""
        self._overflowed = False
        if not overflow.is_support_inf_nan():
            overflow.clear_npu_overflow_flag()

    def look_at(self, gradients: Iterable[torch.Tensor]) -> None:
        """Note whether gradients have overflowed; a chip that saturates says so by its flag. Dynamic scales only."""
        if not self.dynamic:
            return
        if not overflow.is_support_inf_nan() and overflow.get_npu_overflow_flag():
            self._overflowed = True
        self._overflowed = self._overflowed or any(not bool(torch.isfinite(gradient).all()) for gradient in gradients)

    def update_scale(self) -> bool:
        """Move a dynamic scale; return whether the step must be skipped."""
        skip = self.dynamic and self._overflowed
        if skip:
            self._scale = max(self._scale / _FACTOR, self._min or 0.0)
            self._unskipped = 0
        elif self.dynamic:
            self._unskipped += 1
            if self._unskipped == _WINDOW:
                self._scale = min(self._max, self._scale * _FACTOR)
                self._unskipped = 0
        return skip

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and the number of steps since it last changed."""
        return {"loss_scale": self._scale, "unskipped": self._unskipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`'s values. Raises KeyError when they are not there."""
        self._scale, self._unskipped = float(state["loss_scale"]), int(state["unskipped"])


def say(text: str) -> None:
    """Write a line where apex does, for the people and the log readers who wait for it."""
    sys.stdout.write(f"{text}\n")
