"""Opt-in rules for the migration guide's manual steps."""

from __future__ import annotations

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""Modules with a `RULE` and a `check`, in the order they run."""
