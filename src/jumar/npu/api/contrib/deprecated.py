"""The warning of functions that the vendor will remove."""

from __future__ import annotations

import warnings


def warn_deprecated(name: str, instead: str) -> None:
    """Warn the caller's caller that `name` of `torch_npu.contrib` is deprecated."""
    warnings.warn(
        f"torch_npu.contrib.{name} is deprecated. Please use {instead} as a replacement.", FutureWarning, stacklevel=3
    )
