"""How a loss scaler learns of an overflow where nothing becomes infinite: by the flag.

On such a chip torch_npu's `_amp_foreach_non_finite_check_and_unscale_` reads the overflow flag instead of the
gradients (op-plugin, `AmpForeachNonFiniteCheckAndUnscaleKernelNpu.cpp`): while it is up, `found_inf` is set, the
flag is lowered and the gradients stay scaled; else they are unscaled. So `torch.amp.GradScaler` works there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.device.emulator.numerics import arithmetic, overflow
from jumar.device.emulator.plans import Call, Plan
from jumar.device.emulator.state import STATE

_OPERATOR = "aten::_amp_foreach_non_finite_check_and_unscale_"


def layer(plan: Plan, call: Call) -> Call:
    """Have the check read the flag, where the chip saturates."""
    if plan.name != _OPERATOR or not arithmetic.is_strict() or not arithmetic.saturates(STATE.profile):
        return call
    return _by_flag


def _by_flag(_keys: Any, gradients: Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    if overflow.flag() is None:
        for gradient in gradients:
            gradient.mul_(inv_scale)
    elif gradients:
        overflow.clear()
        found_inf.add_(1)
