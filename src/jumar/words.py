"""Small wording that every room needs and no library gives."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 row`, `2,000 rows`; `plural` for a noun that takes no s: `2 policies`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
