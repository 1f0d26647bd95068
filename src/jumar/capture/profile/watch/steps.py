"""`StepFinder`: calls a function at each border of two steps, without an edit of the program.

`capture.watch.steps.StepWatch` finds them. With an optimizer, the border comes when its `step` has returned: inside,
the mark of a step would begin in the range `Optimizer.step` and end outside of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer

from jumar.capture.notes.patches import Patches
from jumar.capture.watch.steps import StepWatch


class _Nobody:
    """Wants to know nothing of optimizers."""

    def before_step(self, optimizer: Any, *, has_closure: bool) -> None: ...

    def after_step(self, optimizer: Any, *, has_closure: bool) -> None: ...

    def after_scaled_step(self, scaler: Any, optimizer: Any, *, was_called: bool) -> None: ...


class StepFinder:
    """Calls `on_begin` at the first sign of training or inference, `on_border` when a step ends, `on_restart` when the
    steps so far turn out to be none. `was_stopped` says whether the program was ended after its steps.
    """

    def __init__(
        self, on_begin: Callable[[], None], on_border: Callable[[], None], on_restart: Callable[[], None]
    ) -> None:
        self._on_begin: Callable[[], None] | None = on_begin
        self._on_border = on_border
        self._watch = StepWatch(self._complete, _Nobody(), on_restart)
        self._patches = Patches()
        self._handles: list[Any] = []
        self._depth = 0
        """Of module calls."""
        self._inside = 0
        """Of calls of an optimizer's `step` that tell when they return."""
        self._is_pending = False
        self._is_on = False
        self._num_optimizers = 0
        self.was_stopped = False

    @property
    def has_optimizer(self) -> bool:
        """Whether the program has made an optimizer."""
        return self._watch.has_optimizer

    def start(self) -> None:
        """Begin to watch."""
        self._is_on = True
        self._hook_modules()
        self._watch.start()
        self._patches.around(Optimizer, "__init__", self._around_construction)

    def stop(self) -> None:
        """End; the program runs as if nobody had watched."""
        self._is_on = False
        self._drop_handles()
        self._patches.restore()
        self._watch.stop()

    def expect_optimizer(self) -> None:
        """Tell that an optimizer is being made just now."""
        self._watch.expect_optimizer()
        self._begin()

    def catch_up(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Tell that `start` was called on the way into this outermost module call."""
        self._before_call(module, args)

    def _begin(self) -> None:
        on_begin, self._on_begin = self._on_begin, None
        if on_begin is not None:
            on_begin()

    def _complete(self) -> None:
        """Take the end of a step."""
        if not self._is_on:
            return
        self._begin()
        if self._inside:
            self._is_pending = True
        else:
            self._on_border()

    # -- calls of modules ---------------------------------------------------------------------

    def _before_call(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth += 1
        if self._depth == 1 and next(module.parameters(), None) is not None:
            self._begin()
            self._watch.on_root_call()

    def _after_call(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._depth = max(self._depth - 1, 0)

    def _hook_modules(self) -> None:
        """Hear of calls of modules.

        NOTE: TorchDynamo guards what it compiled by whether there are such hooks, and compiles again when they come or
        go. So they go when the first optimizer is made, before models are called; programs with several need them.
        """
        self._handles = [
            register_module_forward_pre_hook(self._before_call),
            register_module_forward_hook(self._after_call, always_call=True),
        ]

    def _drop_handles(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # -- optimizers ---------------------------------------------------------------------------

    @contextmanager
    def _around_construction(self, optimizer: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        self._begin()
        self._num_optimizers += 1
        if self._num_optimizers == 1:
            self._drop_handles()
        elif not self._handles:
            self._hook_modules()
        yield
        self._tell_of_return(type(optimizer))

    def _tell_of_return(self, kind: type) -> None:
        """Have `step` of a class of optimizers say when it has returned."""
        step = kind.__dict__.get("step")
        if step is None or getattr(step, "tells_jumar", False):
            return

        @functools.wraps(step)
        def told(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._is_on:
                return step(*args, **kwargs)
            self._inside += 1
            try:
                result = step(*args, **kwargs)
            finally:
                self._inside -= 1
            if self._is_pending and not self._inside:
                self._is_pending = False
                self._on_border()
            return result

        told.tells_jumar = True  # type: ignore[attr-defined]
        self._patches.replace(kind, "step", told)
