"""The canonical order of a graph's nodes."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def post_order(roots: Sequence[Item], known: Container[Item], needs: Callable[[Item], Sequence[Item]]) -> list[Item]:
    """Return what `roots` need, each item after what it `needs`, in the order in which it is first needed.

    What is `known` already, and what it needs, is left out.
    """
    done: set[Item] = set()
    order: list[Item] = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        item, is_ready = stack.pop()
        if item in done or item in known:
            continue
        if is_ready:
            done.add(item)
            order.append(item)
            continue
        stack.append((item, True))
        stack.extend((other, False) for other in reversed(needs(item)))
    return order
