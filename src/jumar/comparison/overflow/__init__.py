"""Finds the first operator that makes NaN or Inf of finite inputs, where the result is used.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.comparison.overflow.analysis import find_overflow
    from jumar.comparison.overflow.options import Mode, OverflowOptions
    from jumar.comparison.overflow.results import Frame, Origin, OverflowReport, Saturation
    from jumar.comparison.overflow.skips import Skip

__all__ = [
    "Frame",
    "Mode",
    "Origin",
    "OverflowOptions",
    "OverflowReport",
    "Saturation",
    "Skip",
    "find_overflow",
]

_HOME = {
    "Frame": "jumar.comparison.overflow.results",
    "Mode": "jumar.comparison.overflow.options",
    "Origin": "jumar.comparison.overflow.results",
    "OverflowOptions": "jumar.comparison.overflow.options",
    "OverflowReport": "jumar.comparison.overflow.results",
    "Saturation": "jumar.comparison.overflow.results",
    "Skip": "jumar.comparison.overflow.skips",
    "find_overflow": "jumar.comparison.overflow.analysis",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
