"""Rules that users bring: the documents' JSON form, and Jumar's own TOML or JSON form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRules:
    """User rules as values; empty by default."""
