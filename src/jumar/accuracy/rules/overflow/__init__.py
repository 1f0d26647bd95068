"""The rules of overflow, one file each, the most decisive first."""

from __future__ import annotations

from collections.abc import Callable

from jumar.accuracy.overflow.results import OverflowReport
from jumar.accuracy.rules.overflow import (
    benign_nonfinite,
    first_overflow,
    nonfinite_at_start,
    overflow_not_judged,
    persistent_skipping,
    saturated_values,
)
from jumar.findings import Finding
from jumar.rules import Rule

_MODULES = (
    nonfinite_at_start,
    first_overflow,
    saturated_values,
    persistent_skipping,
    overflow_not_judged,
    benign_nonfinite,
)

OVERFLOW_FINDERS: tuple[Callable[[OverflowReport], list[Finding]], ...] = tuple(module.find for module in _MODULES)
"""What turns a report into findings."""

OVERFLOW_RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)

__all__ = ["OVERFLOW_FINDERS", "OVERFLOW_RULES"]
