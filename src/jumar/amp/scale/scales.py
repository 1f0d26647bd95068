"""The ways to scale a loss: fixed, or dynamic with a factor, a window and limits. Both are checked when made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jumar.base.errors import InputError

FIRST_DYNAMIC_SCALE = 2.0**16
WINDOW = 2000
FACTOR = 2.0
GREATEST = 2.0**24


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLossScale:
    """One scale for all steps; MindSpore's `FixedLossScaleManager` has the same names and defaults.

    With `drop_overflow_update` a step whose gradients have NaN or Inf is skipped; Apex's fixed scale (a plain number)
    never skips. Raises InputError for a scale that is not above 0.
    """

    loss_scale: float = 128.0
    drop_overflow_update: bool = True

    def __post_init__(self) -> None:
        _check("loss_scale", self.loss_scale, self.loss_scale > 0, "above 0", "128.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicLossScale:
    """A scale that follows the gradients: divided by `scale_factor` at NaN or Inf, multiplied by it after
    `scale_window` steps without.

    MindSpore's `DynamicLossScaleManager` has the same names; its first scale is 2**24 and its least one 1. The
    defaults here are Apex's. `min_loss_scale` of None sets no limit. Raises InputError for values that cannot be.
    """

    init_loss_scale: float = FIRST_DYNAMIC_SCALE
    scale_factor: float = FACTOR
    scale_window: int = WINDOW
    min_loss_scale: float | None = None
    max_loss_scale: float = GREATEST

    def __post_init__(self) -> None:
        _check("init_loss_scale", self.init_loss_scale, self.init_loss_scale > 0, "above 0", "65536.0")
        _check("scale_factor", self.scale_factor, self.scale_factor > 1, "above 1", "2.0")
        _check("scale_window", self.scale_window, self.scale_window >= 1, "a whole number of at least 1", "2000")
        if self.min_loss_scale is not None:
            least = self.min_loss_scale
            below = 0 <= least <= self.max_loss_scale
            _check("min_loss_scale", least, below, f"from 0 to max_loss_scale ({self.max_loss_scale:g})", "1.0")


def _check(name: str, value: float, holds: bool, rule: str, instead: str) -> None:
    if not holds or not math.isfinite(value):
        raise InputError(f"{name} must be {rule}; got {value!r}. Try {instead}.")
