"""A recording in, bottlenecks out: rules with numbers, the operator table, the steps, what was not checked."""

from __future__ import annotations

from jumar.advise.bottlenecks.advice import Advice, OperatorSummary, StepSummary
from jumar.advise.bottlenecks.engine import advise
from jumar.advise.checks import NotChecked

__all__ = ["Advice", "NotChecked", "OperatorSummary", "StepSummary", "advise"]
