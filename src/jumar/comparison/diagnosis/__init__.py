"""Finds the cause of a divergence: the decision flow, hypotheses, and what to record next.

The names below are loaded when first used; importing this package imports neither NumPy nor PyArrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.comparison.diagnosis.engine import diagnose
    from jumar.comparison.diagnosis.results import Answer, Cause, Diagnosis, StepCurve, Suspect, Suspicion
    from jumar.comparison.diagnosis.second_pass import SecondPass, write_suspects

__all__ = [
    "Answer",
    "Cause",
    "Diagnosis",
    "SecondPass",
    "StepCurve",
    "Suspect",
    "Suspicion",
    "diagnose",
    "write_suspects",
]

_RESULTS = "jumar.comparison.diagnosis.results"
_HOME = {
    "diagnose": "jumar.comparison.diagnosis.engine",
    "SecondPass": "jumar.comparison.diagnosis.second_pass",
    "write_suspects": "jumar.comparison.diagnosis.second_pass",
    **dict.fromkeys(("Answer", "Cause", "Diagnosis", "StepCurve", "Suspect", "Suspicion"), _RESULTS),
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
