"""`FirstRound`: which of several optimizers ends a step. Imports no framework."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any


class FirstRound:
    """Finds the optimizer that ends a step: the one with which all optimizers of the program have stepped once.

    Where one of them does not step in the first round (its turn comes every few iterations, or never), the round ends
    before a model is called a second time from the same place, or when an optimizer steps a second time.
    """

    def __init__(self, parameters_of: Callable[[Any], Iterable[Any]]) -> None:
        """`parameters_of` returns the parameters that an optimizer trains."""
        self._parameters_of = parameters_of
        self.known: list[weakref.ref[Any]] = []
        """The optimizers of the program."""
        self._stepped: list[weakref.ref[Any]] = []
        self._places: set[int] = set()
        """From where models were called before the first optimizer stepped."""

    def add(self, optimizer: Any) -> None:
        """Take in an optimizer that the program has made."""
        self.known.append(weakref.ref(optimizer))

    def is_complete_with(self, optimizer: Any) -> bool:
        """Take in a step; return whether the round is over with it."""
        stepped = [other for ref in self._stepped if (other := ref()) is not None]
        if any(other is optimizer for other in stepped):
            return True
        self._stepped.append(weakref.ref(optimizer))
        known = [other for ref in self.known if (other := ref()) is not None]
        if len(known) < 2:
            return True
        # NOTE: a wrapper of an optimizer shares the parameters of the one it wraps
        trained = {id(parameter) for other in (*stepped, optimizer) for parameter in self._parameters_of(other)}
        return all(id(parameter) in trained for other in known for parameter in self._parameters_of(other))

    def ends_before_call(self) -> Any:
        """Take in a call of a model; return the optimizer that stepped last when the call begins another round."""
        if len(self.known) < 2:
            return None
        place = _place_of_call()
        if not self._stepped:
            self._places.add(place)
            return None
        return self._stepped[-1]() if place in self._places else None


def _place_of_call() -> int:
    """Return a number for the place in the program: the lines of all frames on the stack."""
    lines = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return hash(tuple(lines))
