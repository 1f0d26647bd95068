"""The methods of an optimizer that amp replaces on the instance, and the optimizer's own behind them.

The replacements are bound to the optimizer and find its state at each call: schedulers of learning rates bind `step`
anew, and an optimizer may get another class.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.flat.combining import combine

STASH = "_amp_stash"
"""Attribute of a prepared optimizer; holds its `AmpState`."""


def _step(optimizer: Any, closure: Callable[[], Any] | None = None) -> Any:
    return optimizer._amp_stash.step(closure)


_step.__dict__["_wrapped_by_lr_sched"] = True  # schedulers would wrap it to learn that it was called: it says so itself


def _zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
    optimizer._amp_stash.zero_grad(*args, **kwargs)


def _add_param_group(optimizer: Any, param_group: dict[str, Any]) -> None:
    optimizer._amp_stash.add_param_group(param_group)


def _load_state_dict(optimizer: Any, state_dict: dict[str, Any]) -> None:
    optimizer._amp_stash.load_state_dict(state_dict)


METHODS: dict[str, Callable[..., Any]] = {
    "step": _step,
    "zero_grad": _zero_grad,
    "add_param_group": _add_param_group,
    "load_state_dict": _load_state_dict,
}


class OwnMethods:
    """The methods that an optimizer had before amp replaced them, by name."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._own: dict[str, Any] = {}
        self._replace()

    def __getitem__(self, name: str) -> Any:
        return self._own[name]

    def _replace(self) -> None:
        for name, function in METHODS.items():
            self._own[name] = getattr(self._optimizer, name)
            setattr(self._optimizer, name, types.MethodType(function, self._optimizer))

    def flatten(self, buffers: FlatBuffers) -> None:
        """Let the optimizer step over `buffers` where it has a flat form; its own methods are then those of that."""
        replaced = {name: self._optimizer.__dict__.pop(name) for name in METHODS}
        if combine(self._optimizer, buffers).optimizer is None:
            self._optimizer.__dict__.update(replaced)
        else:
            self._replace()
