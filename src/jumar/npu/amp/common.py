"""`amp_definitely_not_available`: tell whether a device for mixed precision is visible."""

from __future__ import annotations

from jumar.npu.runtime.control import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return whether no device is visible."""
    return not is_available()
