"""From one device to many (`distributed -m MAIN -t MODEL`)."""

from __future__ import annotations

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""Modules with a `RULE` and a `check`, in the order they run."""
