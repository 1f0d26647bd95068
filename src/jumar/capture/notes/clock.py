"""A clock that stands still while the observer works."""

from __future__ import annotations

from time import perf_counter_ns


class RunClock:
    """Nanoseconds of the run without the observer's own work.

    The observer calls `pause` when it begins to work and `resume` when it gives the run its thread
    back; calls may nest. `own` is the sum of the observer's work so far. Code that measures its own work adds to it.
    """

    __slots__ = ("_depth", "_paused_at", "own")

    def __init__(self) -> None:
        self.own = 0
        self._paused_at = 0
        self._depth = 0

    def now(self) -> int:
        """Return the time of the run; it does not move while paused."""
        return (self._paused_at if self._depth else perf_counter_ns()) - self.own

    def pause(self) -> None:
        """Stop the clock."""
        if not self._depth:
            self._paused_at = perf_counter_ns()
        self._depth += 1

    def resume(self) -> None:
        """Let the clock go on where it stopped."""
        self._depth -= 1
        if not self._depth:
            self.own += perf_counter_ns() - self._paused_at
