"""`Steps`: the training steps of a program, counted and, after as many as are wanted, ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StopRun(BaseException):
    """Ends a program after its last wanted step."""


class Steps:
    """The steps so far."""

    def __init__(
        self, stop_after: int | None, on_step: Callable[[int], None] | None, first_step: Callable[..., None] | None
    ) -> None:
        self.num_done = 0
        self.was_stopped = False
        self.is_watching = True
        """Whether what runs now is the program's own."""
        self._stop_after, self._on_step, self._first_step = stop_after, on_step, first_step

    @property
    def wants_first(self) -> bool:
        """Whether the first step is still to be told of."""
        return self._first_step is not None

    def tell_first(self, *step: Any) -> None:
        """Tell of the first step."""
        tell, self._first_step = self._first_step, None
        if tell is not None:
            self.is_watching = False
            try:
                tell(*step)
            finally:
                self.is_watching = True

    def done(self) -> None:
        """Count a step. Raises StopRun after the last one."""
        self.num_done += 1
        if self._on_step is not None:
            self._on_step(self.num_done - 1)
        if self._stop_after is not None and self.num_done >= self._stop_after:
            self.was_stopped = True
            raise StopRun
