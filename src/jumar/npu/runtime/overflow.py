"""The overflow flag as torch_npu shows it: functions of `torch_npu.npu.utils`, and the status operators under them.

Where the chip saturates (910A, 310P, a later chip switched to it) an overflow leaves no Inf behind, so the device
keeps a flag. Elsewhere the results themselves are looked at, and the flag stays down.
"""

from __future__ import annotations

import warnings

import torch

from jumar.npu.core.state import STATE
from jumar.npu.numerics import arithmetic, overflow

__all__ = [
    "clear_npu_overflow_flag",
    "get_npu_overflow_flag",
    "is_support_inf_nan",
    "npu_check_overflow",
]

NUM_STATUS = 8
"""Elements of a status tensor; the first is not 0 while the flag is up."""


def is_support_inf_nan() -> bool:
    """Return whether results that overflow are Inf here, rather than the largest number."""
    return not (arithmetic.is_strict() and arithmetic.saturates(STATE.profile))


def get_npu_overflow_flag() -> bool:
    """Return whether an operator overflowed since the flag was cleared. Raises RuntimeError where Inf shows it."""
    if is_support_inf_nan():
        raise RuntimeError("Unsupported api when soc_version >= Ascend910B1, please use npu_check_overflow")
    return overflow.flag() is not None


def clear_npu_overflow_flag() -> None:
    """Lower the flag; where there is none this only warns."""
    if is_support_inf_nan():
        warnings.warn(
            "When soc_version >= Ascend910B1, clear_npu_overflow_flag is useless. Please remove it.", stacklevel=2
        )
        return
    overflow.clear()


def npu_check_overflow(grad: float | torch.Tensor) -> bool:
    """Return whether there was an overflow: by the value of a gradient, or by the flag, which is then lowered.

    Raises RuntimeError for a gradient that is neither a number nor a tensor.
    """
    if not is_support_inf_nan():
        found = get_npu_overflow_flag()
        if found:
            clear_npu_overflow_flag()
        return found
    if not isinstance(grad, (float, torch.Tensor)):
        raise RuntimeError("Unsupported type.")
    total = grad if isinstance(grad, float) else float(grad.float().sum())
    return total - total != 0
