"""Which forward operator a backward operator belongs to.

Autograd numbers its nodes per thread in the order in which the forward pass makes them, and a node
keeps its number. Noting (number, module, line) while the forward pass goes on is therefore enough
to find, from the node that runs now, the module and line whose gradient it computes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

_next_number = torch._C._autograd._get_sequence_nr
current_node: Callable[[], Any] = torch._C._current_autograd_node
"""The autograd node that runs on this thread, or None outside of a backward pass."""


class Origin(NamedTuple):
    """Where in the forward pass a node was made."""

    module_path: str = ""
    module_type: str = ""
    source: str = ""


_UNKNOWN = Origin()


class Origins:
    """Origins of autograd nodes by number, for one thread. Numbers only grow."""

    __slots__ = ("_numbers", "_origins")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._origins: list[Origin] = []

    def note(self, origin: Origin, *, boundary: bool = False) -> None:
        """Say that nodes made from now on (`boundary`), or by the operator under way, belong to `origin`."""
        number = _next_number() - (not boundary)
        if not self._numbers or number > self._numbers[-1]:
            self._numbers.append(number)
            self._origins.append(origin)
        elif number == self._numbers[-1] and not self._origins[-1].source:
            self._origins[-1] = origin

    def find(self, number: int) -> Origin:
        """Return the origin of the node with this number."""
        position = bisect_right(self._numbers, number) - 1
        return self._origins[position] if position >= 0 else _UNKNOWN

    def forget(self, num_kept: int) -> None:
        """Drop all but the latest `num_kept` entries (graphs of earlier steps may still be alive)."""
        if len(self._numbers) > num_kept:
            del self._numbers[:-num_kept], self._origins[:-num_kept]


class Attribution:
    """Origins of all threads.

    A backward pass may run on threads of the autograd engine, whose nodes are those of the thread
    that called it: `enter_backward` says which one that was.
    """

    NUM_KEPT = 200_000
    """Entries that outlive a step, about four steps of a large model; 30 MB at most."""

    def __init__(self) -> None:
        self._by_thread: dict[int, Origins] = {}
        self._callers: list[int] = []

    def here(self) -> Origins:
        """Return the origins of the calling thread."""
        thread = threading.get_ident()
        origins = self._by_thread.get(thread)
        if origins is None:
            origins = self._by_thread[thread] = Origins()
        return origins

    def enter_backward(self) -> None:
        """Note that the calling thread starts a backward pass."""
        self._callers.append(threading.get_ident())

    def leave_backward(self) -> None:
        """Note that the innermost backward pass is over."""
        if self._callers:
            self._callers.pop()

    def find(self, node: Any) -> Origin:
        """Return the origin of a node that runs now."""
        if self._callers:
            origins = self._by_thread.get(self._callers[-1])
        else:
            origins = self._by_thread.get(threading.get_ident()) or next(iter(self._by_thread.values()), None)
        return origins.find(node._sequence_nr()) if origins is not None else _UNKNOWN

    def end_step(self) -> None:
        """Bound the memory that origins take."""
        for origins in self._by_thread.values():
            origins.forget(self.NUM_KEPT)
