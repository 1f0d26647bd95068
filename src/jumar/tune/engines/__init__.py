"""Engines behind `Engine`: each computes a graph, or a region of one. `jumar.tune.plan.engines` lists them."""

from __future__ import annotations

from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site

__all__ = ["Engine", "GraphFunction", "Precision", "Settings", "Site"]
