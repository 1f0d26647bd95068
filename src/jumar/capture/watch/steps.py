"""Where a step ends, and which calls are the optimizer's: `StepWatch`.

With an optimizer, a step ends when it has stepped, also when `GradScaler` found Inf and skipped its update; what runs
after that belongs to the next step. Of several optimizers the one that completes the first round ends each step: with a
generator and a discriminator, the one that steps last in the loop. Gradient accumulation needs nothing special: several
forward and backward passes are one step, and so is all that a closure computes.
In a program without any optimizer a step is one call of an outermost module that has parameters and all that follows
until the next such call. When an optimizer is made after such steps, they were no steps (a dry run, a lazy module), and
counting begins anew.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from jumar.amp.hooks import ScaledStep, watch
from jumar.capture.notes.patches import Patches
from jumar.capture.notes.rounds import FirstRound


class OptimizerListener(Protocol):
    """What `StepWatch` tells of optimizers."""

    def before_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """An optimizer is about to update its parameters."""

    def after_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """It has."""

    def after_scaled_step(self, scaler: Any, optimizer: Any, *, was_called: bool) -> None:
        """A `GradScaler` has called the optimizer, or has left that out.

        For an optimizer of `jumar.amp` (`apex.amp`) the scaler is an `AmpScaler`, and the call is still to come.
        """


class AmpScaler:
    """One step of `jumar.amp` in the words of `torch.amp.GradScaler`."""

    def __init__(self, step: ScaledStep) -> None:
        self._scale = torch.tensor(step.loss_scale)
        self._per_optimizer_states = {
            id(step.optimizer): {"found_inf_per_device": {"cpu": torch.tensor(float(step.skipped))}}
        }

    def is_enabled(self) -> bool:
        """Return True: the loss was scaled."""
        return True

    def get_scale(self) -> float:
        """Return the scale that the loss was multiplied with."""
        return float(self._scale)


class StepWatch:
    """Calls `on_step_end` when a step is complete. `depth` is above zero while an optimizer works."""

    def __init__(
        self,
        on_step_end: Callable[[], None],
        listener: OptimizerListener,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_restart` is called when the steps so far turn out to be none."""
        self._on_step_end = on_step_end
        self._on_restart = on_restart
        self._listener = listener
        self._round = FirstRound(_parameters_of)
        self._leader: weakref.ref[Optimizer] | None = None
        self._has_optimizer = False
        self._root_was_called = False
        self._scaler_depth = 0
        self._was_called = False
        self._handles: list[Any] = []
        self._patches = Patches()
        self._unwatch_amp: Callable[[], None] = lambda: None
        self.depth = 0

    def start(self) -> None:
        """Begin to watch; optimizers that exist already count."""
        known = _optimizers_there()
        if len(known) > 1:  # some may be left from a training that is over
            gc.collect()
        self._has_optimizer |= any(reference() is not None for reference in known)
        self._round.known += known
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._patches.around(Optimizer, "__init__", self._around_construction)
        self._patches.around(torch.amp.GradScaler, "step", self._around_scaler_step)
        for name in ("unscale_", "update"):
            self._patches.around(torch.amp.GradScaler, name, self._around_scaler)
        self._unwatch_amp = watch(self)

    def stop(self) -> None:
        """Take all hooks away again."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._unwatch_amp()
        self._unwatch_amp = lambda: None
        self._patches.restore()

    def expect_optimizer(self) -> None:
        """Tell that the program has an optimizer."""
        self._has_optimizer = True

    def on_root_call(self) -> None:
        """Tell that an outermost module with parameters is about to be called."""
        if self._has_optimizer:
            if self._leader is None and (last := self._round.ends_before_call()) is not None:
                self._leader = weakref.ref(last)
                self._on_step_end()
            return
        if self._root_was_called:
            self._on_step_end()
        self._root_was_called = True

    @property
    def has_optimizer(self) -> bool:
        """Whether the program has made an optimizer."""
        return self._has_optimizer

    @property
    def last_step_is_open(self) -> bool:
        """Whether the end of the program completes a step: there was no optimizer to do it."""
        return self._root_was_called and self._leader is None

    @contextmanager
    def _around_construction(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        if not self._has_optimizer:
            self._has_optimizer = True
            if self._root_was_called:
                self._root_was_called = False
                self._on_restart()
        yield
        self._round.add(args[0])

    @contextmanager
    def _around_scaler(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    @contextmanager
    def _around_scaler_step(self, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        self._scaler_depth += 1
        self._was_called = False
        try:
            with self._around_scaler():
                yield
        finally:
            self._scaler_depth -= 1
        self._listener.after_scaled_step(scaler, optimizer, was_called=self._was_called)
        self._complete(optimizer)

    def before_amp_step(self, step: ScaledStep) -> None:
        """See `jumar.amp.hooks.Watcher`; the update itself, where it is made, is seen as any optimizer's."""
        self._listener.after_scaled_step(AmpScaler(step), step.optimizer, was_called=not step.skipped)
        if step.skipped:
            self._complete(step.optimizer)

    def amp_at_work(self) -> AbstractContextManager[None]:
        """See `jumar.amp.hooks.Watcher`: unscaling counts as the optimizer's, as that of `GradScaler`."""
        return self._around_scaler()

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any]:
        self._was_called = True
        self.depth += 1
        self._listener.before_step(optimizer, has_closure=_has_closure(args, kwargs))
        itself, *rest = args
        own = {name: self._as_the_programs(value) for name, value in kwargs.items()}
        return (itself, *map(self._as_the_programs, rest)), own

    def _as_the_programs(self, argument: Any) -> Any:
        """Return the closure so that its operators do not count as the optimizer's. LBFGS takes a closure, and
        Lightning gives one to every optimizer."""
        if not callable(argument):
            return argument

        @functools.wraps(argument)
        def closure(*args: Any, **kwargs: Any) -> Any:
            depth, self.depth = self.depth, 0
            try:
                return argument(*args, **kwargs)
            finally:
                self.depth = depth

        return closure

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._listener.after_step(optimizer, has_closure=_has_closure(args, kwargs))
        self.depth -= 1
        if not self._scaler_depth:
            self._complete(optimizer)

    def _complete(self, optimizer: Any) -> None:
        self._has_optimizer = True
        leader = self._leader() if self._leader is not None else None
        if leader is None and self._round.is_complete_with(optimizer):
            self._leader, leader = weakref.ref(optimizer), optimizer
        if optimizer is leader:
            self.depth = 0  # an optimizer that raised has left its mark
            self._on_step_end()


def _optimizers_there() -> list[weakref.ref[Any]]:
    return [weakref.ref(item) for item in gc.get_objects() if issubclass(type(item), Optimizer)]


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]


def _has_closure(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether `step` was called with a function that computes the gradients; `args` begin with the optimizer."""
    return kwargs.get("closure") is not None or any(callable(value) for value in args[1:2])
