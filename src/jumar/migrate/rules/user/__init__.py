"""Rules that users bring with `-r`."""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.user import user_rule

MODULES: tuple[ModuleType, ...] = (user_rule,)
"""Modules with a `RULE` and a `check`, in the order they run."""
