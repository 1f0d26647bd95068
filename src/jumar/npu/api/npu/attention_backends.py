"""`torch.npu.backends`: which attention kernels may be used. They set PyTorch's own flags, as the vendor's do."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

__all__ = [
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "math_sdp_enabled",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]


cuda: Any = torch.backends.cuda
flash_sdp_enabled, enable_flash_sdp = cuda.flash_sdp_enabled, cuda.enable_flash_sdp
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp
math_sdp_enabled, enable_math_sdp = cuda.math_sdp_enabled, cuda.enable_math_sdp


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True
) -> Iterator[None]:
    """Within the block, allow only these kernels."""
    before = flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled()
    _set(enable_flash, enable_math, enable_mem_efficient)
    try:
        yield
    finally:
        _set(*before)


def preferred_linalg_library(backend: Any = None) -> torch._C._LinalgBackend:
    """Return PyTorch's default after a warning, as the vendor's function does: there is nothing to choose from."""
    del backend
    warnings.warn("torch.npu.preferred_linalg_library isn't implemented!", stacklevel=2)
    return torch._C._LinalgBackend.Default


def _set(flash: bool, math: bool, mem_efficient: bool) -> None:
    enable_flash_sdp(flash)
    enable_math_sdp(math)
    enable_mem_efficient_sdp(mem_efficient)
