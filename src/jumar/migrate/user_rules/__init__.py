"""Rules that users bring: the documents' JSON form, and Jumar's own form in TOML or JSON."""

from __future__ import annotations

from jumar.migrate.user_rules.load import load, loads
from jumar.migrate.user_rules.model import RuleTest, UserRule, UserRules

__all__ = ["RuleTest", "UserRule", "UserRules", "load", "loads"]
