"""Two recordings in, the first divergence out: settings, data and parameters first, then operators."""

from __future__ import annotations

from jumar.accuracy.compare import compare
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.results import (
    ArgumentDiff,
    Comparison,
    LossPair,
    OperatorDiff,
    RunSummary,
    Spot,
    TensorDiff,
    UnmatchedCall,
)
from jumar.accuracy.text import summary_text

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
    "summary_text",
]
