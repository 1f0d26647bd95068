"""Plans for whole graphs: what subgraph tuning chooses, and how it is built."""

from __future__ import annotations

from jumar.tune.plan.plan import Plan, Region

__all__ = ["Plan", "Region"]
