"""Finds the operators that open the gap between the losses of two runs, by switching operators.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.comparison.bisect.engine import Question, bisect
    from jumar.comparison.bisect.results import Bisection, Trial
    from jumar.comparison.bisect.runs import Program
    from jumar.comparison.bisect.units import Unit

__all__ = ["Bisection", "Program", "Question", "Trial", "Unit", "bisect"]

_HERE = "jumar.comparison.bisect"
_HOME = {
    "Bisection": f"{_HERE}.results",
    "Trial": f"{_HERE}.results",
    "Program": f"{_HERE}.runs",
    "Question": f"{_HERE}.engine",
    "bisect": f"{_HERE}.engine",
    "Unit": f"{_HERE}.units",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
