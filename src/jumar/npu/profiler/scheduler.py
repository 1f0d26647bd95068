"""`torch_npu.profiler.scheduler`: what the profiler does in each step."""

from __future__ import annotations

from enum import Enum

from jumar.npu.profiler.messages import warn

__all__ = ["ProfilerAction", "Schedule"]


class ProfilerAction(Enum):
    """What happens in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class Schedule:
    """Skip `skip_first` steps, then repeat: `wait` steps of nothing, `warmup` steps, `active` recorded steps.

    `repeat` 0 repeats until the end. `skip_first_wait` other than 0 leaves out the first wait. Numbers that
    are not allowed are replaced, with a line in the log. Raises ValueError when asked for a step below 0.
    """

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
    ) -> None:
        self.wait = _checked("wait", wait, 0, 0)
        self.warmup = _checked("warmup", warmup, 0, 0)
        self.active = _checked("active", active, 1, 1)
        self.repeat = _checked("repeat", repeat, 0, 0)
        self.skip_first = _checked("skip_first", skip_first, 0, 0)
        self.skip_first_wait = (
            skip_first_wait if isinstance(skip_first_wait, int) else _checked("skip_first_wait", -1, 0, 0)
        )
        if self.warmup == 0:
            warn("Profiler won't be using warmup, this can skew profiler results")

    def __call__(self, step: int) -> ProfilerAction:
        """Return what the profiler does in this step, counted from 0."""
        if step < 0:
            raise ValueError("Invalid parameter step, which must be not less than 0.")
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        length = self.wait + self.warmup + self.active
        if 0 < self.repeat <= step / length:
            return ProfilerAction.NONE
        within = step % length
        if within < self.wait:
            return ProfilerAction.NONE
        if within < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if within < length - 1 else ProfilerAction.RECORD_AND_SAVE


def _checked(name: str, value: int, least: int, instead: int) -> int:
    if isinstance(value, int) and value >= least:
        return value
    warn(f"Invalid parameter {name}, reset it to {instead}.")
    return instead


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD
