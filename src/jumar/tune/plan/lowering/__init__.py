"""Graphs in fewer bits: casts and scales written into a graph, so that every engine can compute it."""

from __future__ import annotations

from jumar.tune.plan.lowering.lowering import PRECISIONS, Lowering, LowPrecision, Range
from jumar.tune.plan.lowering.rewrite import Lowered, effective, lowered, rounded

__all__ = ["PRECISIONS", "LowPrecision", "Lowered", "Lowering", "Range", "effective", "lowered", "rounded"]
