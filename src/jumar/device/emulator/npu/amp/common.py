"""Whether mixed precision can be had."""

from __future__ import annotations

from jumar.device.emulator.npu.control import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return whether no device is visible."""
    return not is_available()
