"""Random numbers: operators on the npu draw from the CPU's default generator.

A script that runs on the emulator therefore draws the same numbers as on the CPU, which is what makes
the two runs comparable. The vendor's devices have generators of their own.
"""

from __future__ import annotations

from typing import Any

import torch


def to_cpu_generator(generator: torch.Generator | None) -> Any:
    """Return the CPU generator that stands behind this one."""
    return generator
