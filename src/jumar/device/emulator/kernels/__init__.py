"""Kernels of the operators that the general mechanism does not serve, by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.device.emulator.kernels import (
    assignment,
    attention,
    convolution,
    copy,
    factory,
    memory,
    normalization,
    recurrent,
    rnn,
)

SPECIAL: dict[str, Callable[..., Any]] = {
    **convolution.KERNELS,
    **copy.KERNELS,
    **factory.KERNELS,
    **memory.KERNELS,
    **normalization.KERNELS,
    **recurrent.KERNELS,
}
"""Kernel on the device's own key, by operator name."""

COMPOSITES: dict[str, Callable[..., Any]] = {**assignment.COMPOSITES, **attention.COMPOSITES, **rnn.COMPOSITES}
"""Kernel on the device's autograd key, by operator name."""
