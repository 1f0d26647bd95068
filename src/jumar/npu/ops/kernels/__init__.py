"""Kernels of the operators that the general mechanism does not serve, by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.npu.ops.kernels import (
    across,
    adapter,
    attention,
    copy,
    group_norm,
    loss,
    memory,
    normalization,
    packed,
    recurrent,
    whole,
)

SPECIAL: dict[str, Callable[..., Any]] = {
    **across.KERNELS,
    **copy.KERNELS,
    **memory.KERNELS,
    **normalization.KERNELS,
    **recurrent.KERNELS,
}
"""Kernel on the device's own key, by operator name."""

COMPOSITES: dict[str, Callable[..., Any]] = {
    **across.COMPOSITES,
    **adapter.COMPOSITES,
    **attention.COMPOSITES,
    **loss.COMPOSITES,
    **packed.COMPOSITES,
    **recurrent.COMPOSITES,
    **whole.COMPOSITES,
}
"""Kernel on the device's autograd key, by operator name."""

AUTOGRAD: dict[str, Callable[..., Any]] = {**group_norm.AUTOGRAD, **loss.AUTOGRAD}
"""Kernel on the device's autograd key of operators that have their own below it, by operator name."""
