"""Inference: the plan with the weights in it, in the place of the compiled module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import torch

from jumar.tune.backend.capture import Taken
from jumar.tune.backend.compilation import Compiled
from jumar.tune.backend.notes import say
from jumar.tune.engines import GraphFunction

_version = attrgetter("_version")
_address = torch.Tensor.data_ptr


def tuned(function: GraphFunction, taken: Taken, arguments: Sequence[Any], untuned: Callable[[], Compiled]) -> Compiled:
    """Return `function` as the module's compiled form.

    The weights are in it, so each call looks whether they are the tensors they were, unwritten and where they were;
    from the first call that finds them changed on, what `untuned` makes is called. A change through an alias with a
    version counter of its own (`weight.data.copy_(…)`) is not seen, as it is not by TorchInductor's freezing.
    """
    pick = _picker([taken.arguments[place] for place in taken.graph.variables])
    if not taken.weights:
        return lambda *given: function(*pick(given))
    watched = _Watched(taken.weights, arguments)
    state = _State(untuned)

    def call(*given: Any) -> Any:
        if state.instead is not None:
            return state.instead(*given)
        if watched.are_unchanged(given):
            return function(*pick(given))
        return state.give_up()(*given)

    return call


class _State:
    """What is called once the weights have changed."""

    def __init__(self, untuned: Callable[[], Compiled]) -> None:
        self.instead: Compiled | None = None
        self._untuned = untuned
        self._lock = threading.Lock()

    def give_up(self) -> Compiled:
        with self._lock:
            if self.instead is None:
                say(
                    "the weights of a tuned model have changed since it was compiled; it runs untuned from now on. "
                    "Call torch._dynamo.reset() after loading weights to have it compiled for the new ones."
                )
                self.instead = self._untuned()
        return self.instead


class _Watched:
    """The weights among the arguments, and how they were when the plan was built."""

    def __init__(self, numbers: Sequence[int], arguments: Sequence[Any]) -> None:
        self._pick = _picker(numbers)
        self._weights = self._pick(arguments)
        self._addresses = list(map(_address, self._weights))
        # NOTE: tensors made in inference mode have no version counter; they can be written in inference mode only.
        counted = [number for number in numbers if not arguments[number].is_inference()]
        self._pick_counted = _picker(counted)
        self._versions = list(map(_version, self._pick_counted(arguments)))

    def are_unchanged(self, given: Sequence[Any]) -> bool:
        """Tell whether the weights of a call are the very tensors, with the same values as far as that shows."""
        weights = self._pick(given)
        return (
            all(map(is_, weights, self._weights))
            and list(map(_version, self._pick_counted(given))) == self._versions
            and list(map(_address, weights)) == self._addresses
        )


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what takes these items of a sequence."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    first = list(numbers)
    return lambda items: [items[number] for number in first]
