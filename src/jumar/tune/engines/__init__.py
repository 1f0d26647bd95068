"""Engines, one file each behind `Engine`."""

from __future__ import annotations

from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site

__all__ = ["ENGINES", "Engine", "GraphFunction", "Precision", "Settings", "Site"]

ENGINES: tuple[Engine, ...] = ()
"""In the order in which they are tried."""
