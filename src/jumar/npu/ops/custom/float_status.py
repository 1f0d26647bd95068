"""The status operators under the overflow flag.

A status is 8 numbers, of which the first is not 0 while the flag is up. On the first generation a status is
float32, later int32. Under IEEE arithmetic nothing raises the flag.
"""

from __future__ import annotations

import torch

from jumar.npu.core.state import STATE
from jumar.npu.numerics import overflow
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor

_NUM_STATUS = 8


def _check_mode(mode: int) -> None:
    if mode not in (0, 1):
        raise RuntimeError(f"mode only supported for ORIGINAL_MODE(0) DEBUG_MODE(1), but got mode:{mode}")


@implements("npu_alloc_float_status", differentiable=False)
def alloc_float_status(self: Tensor) -> Tensor:
    """Return a status that says nothing: 8 zeros, float32."""
    return torch.zeros(_NUM_STATUS, dtype=torch.float32, device=self.device)


@implements("npu_get_float_status", differentiable=False)
def get_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Return the status of the moment: (8,), int32 from Ascend910B1 on and in debug mode, else float32.

    Raises RuntimeError for a mode other than 0 (the flag) and 1 (debug), which reads the same flag here.
    """
    _check_mode(mode)
    is_integer = mode == 1 or STATE.profile.is_aclnn_default
    status = torch.zeros(_NUM_STATUS, dtype=torch.int32 if is_integer else torch.float32, device=self.device)
    if overflow.flag() is not None and not self.is_meta:
        status[0] = 1
    return status


@implements("npu_clear_float_status", differentiable=False)
def clear_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Lower the flag and return 8 zeros of the type of `self`. Raises RuntimeError for a mode that is none."""
    _check_mode(mode)
    if not self.is_meta:
        overflow.clear()
    return torch.zeros(_NUM_STATUS, dtype=self.dtype, device=self.device)
