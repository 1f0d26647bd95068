"""From a comparison and its two recordings to a cause: the decision flow, hypotheses, and what to record next.

The names below are loaded when first used; importing this package imports neither NumPy nor PyArrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.lazy import loader

if TYPE_CHECKING:
    from jumar.accuracy.diagnosis.engine import diagnose
    from jumar.accuracy.diagnosis.results import Answer, Cause, Diagnosis, StepCurve, Suspect, Suspicion
    from jumar.accuracy.diagnosis.second_pass import SecondPass, write_suspects

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

_RESULTS = "jumar.accuracy.diagnosis.results"
_HOME = {
    "diagnose": "jumar.accuracy.diagnosis.engine",
    "SecondPass": "jumar.accuracy.diagnosis.second_pass",
    "write_suspects": "jumar.accuracy.diagnosis.second_pass",
    **dict.fromkeys(("Answer", "Cause", "Diagnosis", "StepCurve", "Suspect", "Suspicion"), _RESULTS),
}

__getattr__ = loader(__name__, __all__, _HOME)
