"""A recording in, bottlenecks out: rules with numbers, the operator table, the steps, what was not checked."""

from __future__ import annotations

from jumar.performance.advice import Advice, NotChecked, OperatorSummary, StepSummary
from jumar.performance.engine import advise

__all__ = ["Advice", "NotChecked", "OperatorSummary", "StepSummary", "advise"]
