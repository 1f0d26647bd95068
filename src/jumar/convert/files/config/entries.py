"""`Entry`, which every scanner of configurations yields: one value, its keys, and its position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Style = Literal["plain", "quoted", "block", "item", "quoted item"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One scalar value. `text[start:end]` is it without quotes, escapes as they are written."""

    path: tuple[str, ...]
    """Keys from the outermost to the value's own; items of a list have the list's."""
    value: str
    start: int
    end: int
    style: Style
    key_span: tuple[int, int] | None = None
    """Where the key stands without quotes; None for the items of a list."""

    @property
    def key(self) -> str:
        """The key nearest to the value, empty where there is none."""
        return self.path[-1] if self.path else ""

    @property
    def is_item(self) -> bool:
        """Whether the value is an item of a list."""
        return self.key_span is None


Scanner = Callable[[str], Iterator[Entry]]
"""Yields the values of a text in their order. It takes any text and never raises."""
