"""Opt-in rewrites to what an NPU computes faster, each proven equal."""

from __future__ import annotations

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""Modules with a `RULE` and a `check`, in the order they run."""
