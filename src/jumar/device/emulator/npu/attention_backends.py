"""`torch.npu.backends`: which attention kernels may be used. They set PyTorch's own flags, as the vendor's do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = [
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "math_sdp_enabled",
    "mem_efficient_sdp_enabled",
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


def _set(flash: bool, math: bool, mem_efficient: bool) -> None:
    enable_flash_sdp(flash)
    enable_math_sdp(math)
    enable_mem_efficient_sdp(mem_efficient)
