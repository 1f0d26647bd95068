"""Kernels of the operators that the general mechanism does not serve, by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.npu.ops.kernels import (
    across,
    attention,
    copy,
    memory,
    normalization,
    recurrent,
)

SPECIAL: dict[str, Callable[..., Any]] = {
    **across.KERNELS,
    **copy.KERNELS,
    **memory.KERNELS,
    **normalization.KERNELS,
    **recurrent.KERNELS,
}
"""Kernel on the device's own key, by operator name."""

COMPOSITES: dict[str, Callable[..., Any]] = {**across.COMPOSITES, **attention.COMPOSITES, **recurrent.COMPOSITES}
"""Kernel on the device's autograd key, by operator name."""
