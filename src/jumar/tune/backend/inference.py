"""Inference: the plan with the weights in it, in the place of the compiled module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, is_, itemgetter
from threading import Lock
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

from jumar.tune.backend.capture import Taken
from jumar.tune.backend.compilation import Compiled
from jumar.tune.engines import GraphFunction
from jumar.tune.model.notes import say

GREATEST_SETS = 16
"""Sets of weights that one compiled graph is built for: models, or blocks of a model, of the same code."""
GREATEST_SETS_OF_BUFFERS = 2
"""The same where no weight is a parameter, by which a model would be told from one that replaces its buffers."""

Ready = tuple[GraphFunction, Taken]
"""A graph's plan as a function, and the graph."""

_version = attrgetter("_version")
_address = torch.Tensor.data_ptr


def tuned(
    ready: Ready, arguments: Sequence[Any], prepare: Callable[[Sequence[Any]], Ready | None],
    untuned: Callable[[], Compiled],
) -> Compiled:  # fmt: skip
    """Return what `ready` holds as the module's compiled form.

    The weights are in it, so each call looks whether they are the tensors they were, unwritten and where they were.
    Other tensors (another module of the same code) get a function of their own, which `prepare` makes; tensors that
    were written to, and buffers that others took the place of, are computed with by what `untuned` makes. A change
    through an alias with a version counter of its own (`weight.data.copy_(…)`) is not seen, as it is not by
    TorchInductor's freezing.
    """
    _, taken = ready
    if not taken.weights:
        return _computing(ready)
    sets = _Sets(_Weights(taken.weights, arguments, _computing(ready)), prepare, untuned)

    def call(*given: Any) -> Any:
        latest = sets.latest
        if latest.are_unchanged(given):
            return latest.compute(*given)
        return sets.other(given)(*given)

    return call


class _Weights:
    """One set of weights, how they were when the plan was built, and what computes with them."""

    def __init__(self, numbers: Sequence[int], arguments: Sequence[Any], compute: Compiled) -> None:
        self.compute = compute
        self._numbers = numbers
        self._pick = _picker(numbers)
        self._tensors = self._pick(arguments)
        count_steps(self._tensors)
        self._addresses = list(map(_address, self._tensors))
        parameters = [number for number in numbers if isinstance(arguments[number], torch.nn.Parameter)]
        self.has_parameters = bool(parameters)
        self._pick_parameters = _picker(parameters)
        self._parameters = self._pick_parameters(arguments)
        # NOTE: tensors made in inference mode have no version counter; they can be written in inference mode only.
        counted = [number for number in numbers if not arguments[number].is_inference()]
        self._pick_counted = _picker(counted)
        self._versions = list(map(_version, self._pick_counted(arguments)))

    def are_those(self, given: Sequence[Any]) -> bool:
        """Tell whether the weights of a call are the very tensors."""
        return all(map(is_, self._pick(given), self._tensors))

    def are_of_one_model(self, given: Sequence[Any]) -> bool:
        """Tell whether the parameters of a call are the very tensors."""
        return all(map(is_, self._pick_parameters(given), self._parameters))

    def are_unchanged(self, given: Sequence[Any]) -> bool:
        """Tell whether they also have the same values, as far as that shows."""
        weights = self._pick(given)
        return (
            all(map(is_, weights, self._tensors))
            and list(map(_version, self._pick_counted(given))) == self._versions
            and list(map(_address, weights)) == self._addresses
        )

    def another(self, arguments: Sequence[Any], compute: Compiled) -> _Weights:
        """Return another set of the same places."""
        return _Weights(self._numbers, arguments, compute)


class _Sets:
    """The sets of weights that one compiled graph was called with."""

    def __init__(
        self, first: _Weights, prepare: Callable[[Sequence[Any]], Ready | None], untuned: Callable[[], Compiled]
    ) -> None:
        self.latest = first
        self._tuned = [first]
        self._prepare = prepare
        self._make_untuned = untuned
        self._untuned: Compiled | None = None
        self._lock = threading.Lock()

    def other(self, given: Sequence[Any]) -> Compiled:
        """Return what computes a call whose weights are not the latest ones."""
        with self._lock:
            for known in self._tuned:
                has_no_plan = known.compute is self._untuned
                if known.are_those(given) if has_no_plan else known.are_unchanged(given):
                    self.latest = known
                    return known.compute
            if any(known.are_those(given) for known in self._tuned):
                say(
                    "the weights of a tuned model have changed since it was compiled; it runs untuned from now on. "
                    "Call torch._dynamo.reset() after loading weights to have it compiled for the new ones."
                )
            elif self._are_replaced(given):
                say(
                    "the buffers of a tuned model are other tensors than when it was compiled; it runs untuned from "
                    "now on. Write to a buffer that changes from call to call in place (copy_), or call "
                    "torch._dynamo.reset()."
                )
            elif len(self._tuned) < GREATEST_SETS:
                self.latest = self._added(given)
                return self.latest.compute
            else:
                say(f"a graph is compiled for {GREATEST_SETS} sets of weights; with further ones it runs untuned.")
            return self._in_general()

    def _in_general(self) -> Compiled:
        """Return what computes with any weights."""
        if self._untuned is None:
            self._untuned = self._make_untuned()
        return self._untuned

    def _are_replaced(self, given: Sequence[Any]) -> bool:
        """Tell whether a known model has other buffers than it had: it would have others in each further call, too."""
        if not self.latest.has_parameters:
            return len(self._tuned) >= GREATEST_SETS_OF_BUFFERS
        return any(known.are_of_one_model(given) for known in self._tuned)

    def _added(self, given: Sequence[Any]) -> _Weights:
        """Return another set. Where it has no plan that is remembered: looking for one takes seconds."""
        ready = self._prepare(given)
        weights = self.latest.another(given, self._in_general() if ready is None else _computing(ready))
        self._tuned.append(weights)
        return weights


def _computing(ready: Ready) -> Compiled:
    """Return the plan as a function of the module's arguments."""
    function, taken = ready
    pick = _picker([taken.arguments[place] for place in taken.graph.variables])
    return lambda *given: function(*pick(given))


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what takes these items of a sequence."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    first = list(numbers)
    return lambda items: [items[number] for number in first]


_held = WeakIdKeyDictionary()
_lock = Lock()
_installed: list[Any] = []


def count_steps(weights: Iterable[torch.Tensor]) -> None:
    """Let each optimizer's step from now on show in the versions of these weights."""
    with _lock:
        for weight in weights:
            if not weight.is_inference():  # it has no version, and no optimizer writes to it
                _held[weight] = None
        if not _installed:
            _installed.append(register_optimizer_step_post_hook(_after_step))


def _after_step(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    if torch.compiler.is_compiling():  # a compiled step counts its writes
        return
    given = (weight for group in optimizer.param_groups for weight in group["params"])
    written = [weight for weight in given if weight.grad is not None and weight in _held]
    if written:
        torch.autograd.graph.increment_version(written)
