"""Kernels of the operators that the general mechanism does not serve, by topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.device.emulator.kernels import copy, memory

SPECIAL: dict[str, Callable[..., Any]] = {**copy.KERNELS, **memory.KERNELS}
"""Kernel by operator name."""
