"""Several listeners of optimizers as one: `Listeners`."""

from __future__ import annotations

from typing import Any

from jumar.capture.watch.steps import OptimizerListener


class Listeners:
    """An `OptimizerListener` that tells others in turn."""

    def __init__(self, *listeners: OptimizerListener | None) -> None:
        self._listeners = [listener for listener in listeners if listener is not None]

    def before_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """See `OptimizerListener`."""
        for listener in self._listeners:
            listener.before_step(optimizer, has_closure=has_closure)

    def after_step(self, optimizer: Any, *, has_closure: bool) -> None:
        """See `OptimizerListener`."""
        for listener in reversed(self._listeners):
            listener.after_step(optimizer, has_closure=has_closure)

    def after_scaled_step(self, scaler: Any, optimizer: Any, *, was_called: bool) -> None:
        """See `OptimizerListener`."""
        for listener in self._listeners:
            listener.after_scaled_step(scaler, optimizer, was_called=was_called)
