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


def flash_sdp_enabled() -> bool:
    """Return whether flash attention may be used."""
    return torch._C._get_flash_sdp_enabled()


def enable_flash_sdp(enabled: bool) -> None:
    """Allow flash attention or not."""
    torch._C._set_sdp_use_flash(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return whether memory-efficient attention may be used."""
    return torch._C._get_mem_efficient_sdp_enabled()


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow memory-efficient attention or not."""
    torch._C._set_sdp_use_mem_efficient(enabled)


def math_sdp_enabled() -> bool:
    """Return whether the plain composition may be used."""
    return torch._C._get_math_sdp_enabled()


def enable_math_sdp(enabled: bool) -> None:
    """Allow the plain composition or not."""
    torch._C._set_sdp_use_math(enabled)


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
