"""Which forward operator a backward operator belongs to.

Autograd numbers its nodes per thread in the order in which the forward pass makes them, and a node
keeps its number. Noting (number, module, line) while the forward pass goes on is therefore enough
to find, from the node that runs now, the module and line whose gradient it computes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch

_next_number = torch._C._autograd._get_sequence_nr
current_node: Callable[[], Any] = torch._C._current_autograd_node
"""The autograd node that runs on this thread, or None outside of a backward pass."""


class Origin:
    """A module that nodes are made in, and the line where that is known without looking at the stack.

    `sites` is room for those who note calls there.
    """

    __slots__ = ("module_path", "module_type", "sites", "source")

    def __init__(self, module_path: str = "", module_type: str = "", source: str = "") -> None:
        self.module_path = module_path
        self.module_type = module_type
        self.source = source
        self.sites: dict[Any, Any] = {}


class Origins:
    """Origins of autograd nodes by number, for one thread. Numbers only grow.

    Item by item, `numbers`, `origins` and `sources` belong together; the C++ of the hot path adds to them, too.
    """

    __slots__ = ("numbers", "origins", "sources")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.origins: list[Origin] = []
        self.sources: list[str] = []

    def enter(self, origin: Origin) -> None:
        """Note that nodes made from now on belong to `origin`."""
        self.note_at(_next_number(), origin, "")

    def note(self, origin: Origin, source: str) -> None:
        """Note that nodes made by the current operator belong to `origin` and to this line of the user's code."""
        self.note_at(_next_number() - 1, origin, source)

    def note_at(self, number: int, origin: Origin, source: str) -> None:
        """Note that the node with this number, and later ones, belong to `origin` and to this line."""
        numbers = self.numbers
        if not numbers or number > numbers[-1]:
            numbers.append(number)
            self.origins.append(origin)
            self.sources.append(source)
        elif number == numbers[-1] and not self.sources[-1]:
            self.origins[-1] = origin
            self.sources[-1] = source

    def find(self, number: int) -> tuple[Origin, str] | None:
        """Return the origin and the line of the node with this number; None when it is older than all."""
        position = bisect_right(self.numbers, number) - 1
        return (self.origins[position], self.sources[position]) if position >= 0 else None

    def forget(self, num_kept: int) -> None:
        """Drop all but the latest `num_kept` entries (graphs of earlier steps may still be alive)."""
        if len(self.numbers) > num_kept:
            del self.numbers[:-num_kept], self.origins[:-num_kept], self.sources[:-num_kept]


class Attribution:
    """Origins of all threads.

    A backward pass may run on threads of the autograd engine, whose nodes are those of the thread
    that called it: `enter_backward` says which one that was.
    """

    NUM_KEPT = 200_000
    """Entries that outlive a step, about four steps of a large model; 30 MB at most."""

    def __init__(self) -> None:
        self.unknown = Origin()
        """The origin of what belongs to no module."""
        self.by_thread: dict[int, Origins] = {}
        self.callers: list[int] = []

    def here(self) -> Origins:
        """Return the origins of the calling thread."""
        thread = threading.get_ident()
        origins = self.by_thread.get(thread)
        if origins is None:
            origins = self.by_thread[thread] = Origins()
        return origins

    def enter_backward(self) -> None:
        """Note that the calling thread starts a backward pass."""
        self.callers.append(threading.get_ident())

    def leave_backward(self) -> None:
        """Note that the innermost backward pass is over."""
        if self.callers:
            self.callers.pop()

    def find(self, number: int) -> tuple[Origin, str]:
        """Return the origin of the node with this number that runs now, and the line of user code that made it."""
        if self.callers:
            origins = self.by_thread.get(self.callers[-1])
        else:
            origins = self.by_thread.get(threading.get_ident()) or next(iter(self.by_thread.values()), None)
        found = origins.find(number) if origins is not None else None
        return found or (self.unknown, "")

    def end_step(self) -> None:
        """Bound the memory that origins take."""
        for origins in self.by_thread.values():
            origins.forget(self.NUM_KEPT)
