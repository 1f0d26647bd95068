"""Compares two recordings and names the first operator that diverges; settings and data are compared first."""

from __future__ import annotations

from jumar.comparison.model.options import CompareOptions
from jumar.comparison.model.results import (
    ArgumentDiff,
    Comparison,
    LossPair,
    OperatorDiff,
    RunSummary,
    Spot,
    TensorDiff,
    UnmatchedCall,
)
from jumar.comparison.verdict.compare import compare

__all__ = [
    "ArgumentDiff",
    "CompareOptions",
    "Comparison",
    "LossPair",
    "OperatorDiff",
    "RunSummary",
    "Spot",
    "TensorDiff",
    "UnmatchedCall",
    "compare",
]
