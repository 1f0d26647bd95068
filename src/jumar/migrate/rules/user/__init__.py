"""Rules that users bring with `-r`."""

from __future__ import annotations

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""Modules with a `RULE` and a `check`, in the order they run."""
