"""Casts between dtypes on the device, which are operators like others: `Tensor.to`, `.half()`, `.double()`.

A cast to float64 gives float32, with one warning, on every chip (torch_npu's `_to_copy`): tensors are float64
only if they were made so, or came so from the host. An NPU also warns when a tensor is printed, because PyTorch
prints by way of float64. That warning is left out: it is not about the program.

Casts saturate where the chip does, and one to or from bfloat16 is refused where there is none.
"""

from __future__ import annotations

import warnings

import torch

from jumar.npu.core.callers import is_printing, user_frame
from jumar.npu.core.state import STATE
from jumar.npu.numerics import arithmetic, dtypes, saturation

_OPERATOR = "aten::_to_copy"
_warned: list[bool] = []


def replaced(dtype: torch.dtype, source: torch.dtype) -> torch.dtype:
    """Return the dtype that a cast of an npu tensor gives when its caller names no device."""
    if dtype is not torch.float64 or source is torch.float64 or not arithmetic.is_strict():
        return dtype
    if not _warned and not is_printing():
        _warned.append(True)
        warnings.warn(
            "Device do not support double dtype now, dtype cast replace with float.",
            UserWarning,
            stacklevel=user_frame(),
        )
    return torch.float32


def check(source: torch.dtype, target: torch.dtype) -> None:
    """Raise RuntimeError for a cast that the chip does not have."""
    if STATE.profile.has_bfloat16 or not arithmetic.is_strict():
        return
    for dtype, parameter in ((source, "self"), (target, "dtype")):
        if dtype is torch.bfloat16:
            dtypes.refuse_bfloat16(_OPERATOR, "aclnnCast", parameter)


def settle(result: torch.Tensor, source: torch.Tensor) -> None:
    """Saturate what a cast on the device gave, where the chip saturates. Both are CPU tensors."""
    if result.is_floating_point() and arithmetic.is_strict() and arithmetic.saturates(STATE.profile):
        saturation.settle(result, (source,), _OPERATOR)
