"""Switches of the vendor's runtime. They are accepted and remembered; what they change is named where it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.device.emulator.state import STATE

__all__ = ["get_option", "is_jit_compile_false", "set_aoe", "set_compile_mode", "set_option"]


def set_option(option: Mapping[str, Any]) -> None:
    """Remember runtime options such as `{"ACL_PRECISION_MODE": "allow_fp32_to_fp16"}`. Raises TypeError for no dict."""
    if not isinstance(option, Mapping):
        raise TypeError("npu option must be a dict.")
    STATE.options.update({str(key): str(value) for key, value in option.items()})


def get_option(name: str) -> str | None:
    """Return what `set_option` was given under this name, or None."""
    return STATE.options.get(name)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Remember whether operators are compiled online for each new shape."""
    STATE.options["jitCompile"] = "enable" if jit_compile else "disable"


def is_jit_compile_false() -> bool:
    """Return whether online compilation is off."""
    return bool(STATE.options.get("jitCompile", "disable") == "disable")


def set_aoe(dump_path: str) -> None:
    """Remember where the vendor's tuning would write its graphs."""
    STATE.options["mdldumpmode"], STATE.options["mdldumpconfig"] = "enable", str(dump_path)
