"""Overflow, NaN and Inf: the first operator whose finite inputs give a result that is not, and that is used.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.accuracy.overflow.analysis import find_overflow
    from jumar.accuracy.overflow.options import Mode, OverflowOptions
    from jumar.accuracy.overflow.results import Frame, Origin, OverflowReport, Saturation, Skip
    from jumar.accuracy.overflow.text import frames_text, overflow_text

__all__ = [
    "Frame",
    "Mode",
    "Origin",
    "OverflowOptions",
    "OverflowReport",
    "Saturation",
    "Skip",
    "find_overflow",
    "frames_text",
    "overflow_text",
]

_HOME = {
    "Frame": "jumar.accuracy.overflow.results",
    "Mode": "jumar.accuracy.overflow.options",
    "Origin": "jumar.accuracy.overflow.results",
    "OverflowOptions": "jumar.accuracy.overflow.options",
    "OverflowReport": "jumar.accuracy.overflow.results",
    "Saturation": "jumar.accuracy.overflow.results",
    "Skip": "jumar.accuracy.overflow.results",
    "find_overflow": "jumar.accuracy.overflow.analysis",
    "frames_text": "jumar.accuracy.overflow.text",
    "overflow_text": "jumar.accuracy.overflow.text",
}

__getattr__ = loader(__name__, __all__, _HOME)
