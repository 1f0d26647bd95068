"""Small wording that every room needs and no library gives."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
