"""The bottlenecks of a timeline: where the time of its steps went, and what would save some."""

from __future__ import annotations

from jumar.advise.timing.engine import advise_timeline

__all__ = ["advise_timeline"]
