"""Delta debugging: a small set of items that still passes a test.

Zeller and Hildebrandt, *Simplifying and isolating failure-inducing input*, IEEE TSE 28(2), 2002 (`ddmin`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class OutOfRuns(Exception):
    """The test may not be made any more."""


def smallest(items: Sequence[T], test: Callable[[Sequence[T]], bool]) -> tuple[list[T], bool]:
    """Return a subset that passes `test` and of which no single item can be left out, and whether that is certain.

    `items` as a whole passes. When `test` raises OutOfRuns, the best subset so far is returned.
    """
    left = list(items)
    parts = 2
    try:
        while len(left) > 1:
            chunks = _split(left, parts)
            found = next((chunk for chunk in chunks if test(chunk)), None)
            if found is not None:
                left, parts = found, 2
                continue
            rests = [[item for item in left if item not in chunk] for chunk in chunks] if parts > 2 else []
            found = next((rest for rest in rests if test(rest)), None)
            if found is not None:
                left, parts = found, max(parts - 1, 2)
            elif parts >= len(left):
                break
            else:
                parts = min(len(left), 2 * parts)
    except OutOfRuns:
        return left, False
    return left, True


def _split(items: Sequence[T], parts: int) -> list[list[T]]:
    size, extra = divmod(len(items), parts)
    chunks: list[list[T]] = []
    start = 0
    for index in range(parts):
        end = start + size + (index < extra)
        chunks.append(list(items[start:end]))
        start = end
    return chunks
