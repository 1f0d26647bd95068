"""What `jumar.amp` is told of the emulated NPU: its overflow flag, and that O1's casts end with their block."""

from __future__ import annotations

import sys

from jumar.amp.hooks import DeviceHooks, register_device
from jumar.npu.core.state import STATE
from jumar.npu.numerics import overflow
from jumar.npu.runtime.overflow import is_support_inf_nan

_CASTS = "apex.amp casts functions"
"""Option that says so; like every option, it ends with the `emulate` block it was set in."""


class _Flag:
    def saturates(self) -> bool:
        return not is_support_inf_nan()

    def clear(self) -> None:
        overflow.clear()

    def is_up(self) -> bool:
        return overflow.flag() is not None


def _begin_casts() -> None:
    STATE.options[_CASTS] = True


def _settle() -> None:
    """End the casts of O1 when the option has gone."""
    casting = sys.modules.get("jumar.amp.cast.casting")
    if casting is not None and "npu" in casting.CASTS.device_types and not STATE.options.get(_CASTS):
        sys.modules["jumar.amp.state"].STATE.stop_casts()


def register() -> None:
    """Tell `jumar.amp` about the device; called once, when it comes up."""
    register_device("npu", DeviceHooks(flag=_Flag(), on_casts=_begin_casts))
    STATE.on_settings.append(_settle)
