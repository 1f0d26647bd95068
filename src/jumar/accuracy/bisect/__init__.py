"""Which operators open the gap between two runs' losses: found by switching them.

The names below are loaded when first used; importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.accuracy.bisect.engine import Question, bisect
    from jumar.accuracy.bisect.results import Bisection, Trial
    from jumar.accuracy.bisect.runs import Program
    from jumar.accuracy.bisect.units import Unit

__all__ = ["Bisection", "Program", "Question", "Trial", "Unit", "bisect"]

_HERE = "jumar.accuracy.bisect"
_HOME = {
    "Bisection": f"{_HERE}.results",
    "Trial": f"{_HERE}.results",
    "Program": f"{_HERE}.runs",
    "Question": f"{_HERE}.engine",
    "bisect": f"{_HERE}.engine",
    "Unit": f"{_HERE}.units",
}

__getattr__ = loader(__name__, __all__, _HOME)
