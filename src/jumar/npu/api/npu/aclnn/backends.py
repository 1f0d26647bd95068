"""`torch.npu.aclnn.backends`."""

from __future__ import annotations

import warnings

__all__ = ["version"]


def version() -> None:
    """Return None after a warning, as the vendor's function does: it has no version to tell."""
    warnings.warn("torch.npu.aclnn.version isn't implemented!", stacklevel=2)
