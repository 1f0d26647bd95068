"""A budget for a recording: how large it may become, and how much it may slow the run. Imports no torch.

What no longer fits is left out in the order of `Stage`; what was once left out stays left out, so that the
steps that follow hold the same. Size is promised for the recording as a whole. Slowdown is the observer's own
time on the run's thread as a share of the run's, judged a step at a time: the first step, which holds what is
done once, is only judged when it is all there is.

Whole steps are left out by their numbers: every second one is recorded, every fourth, every eighth. The steps of one
run are then among those of another that could afford more, and the two can be compared.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum

from jumar.base.errors import UsageError
from jumar.base.text import parse_size

RESERVED_BYTES = 16_384
"""Kept back for `run.json` and the end files."""
OPEN_END_SHARE = 4
"""Without a known number of steps, the whole tensors of one may take one part in so many of what is left."""
MAX_SPACING = 1 << 20
MOST_THINNED = 3
HISTORY_SHARE = 4
"""One part in so many of the size is kept for the numbers of every step, when the number of steps is not known."""


class Stage(IntEnum):
    """How much has been left out: each stage includes those before it."""

    NOTHING = 0
    TENSORS = 1
    SKETCHES = 2
    REPEATS = 3
    VIEWS = 4
    OPERATORS = 5
    STEPS = 6


LEFT_OUT = {
    Stage.TENSORS: "whole tensors of rows that were not asked for",
    Stage.SKETCHES: "sketches and hashes",
    Stage.REPEATS: "statistics of rows that ran before at their place",
    Stage.VIEWS: "rows of operators that only make views",
    Stage.OPERATORS: "rows of operators",
    Stage.STEPS: "all rows",
}
"""What each stage leaves out, in words."""

_SAVES_TIME = (Stage.TENSORS, Stage.SKETCHES, Stage.VIEWS, Stage.OPERATORS, Stage.STEPS)
"""The statistics of what repeats cost as much to compute as to leave out again."""

_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def parse_budget(text: str | None) -> tuple[int | None, float | None]:
    """Return (bytes, slowdown) from `200MB,20%`, `200MB` or `20%`; None for what is not limited.

    MB are 1,000,000 bytes, MiB 1,048,576; 20 % is 0.2. Raises UsageError when the text has another form, names
    one thing twice, or leaves no room for anything.
    """
    size: int | None = None
    slowdown: float | None = None
    for part in (text or "").split(",") if text is not None else ():
        if share := _SHARE.fullmatch(part):
            if slowdown is not None:
                raise _refusal(text, "names the slowdown twice")
            slowdown = float(share[1]) / 100
        else:
            first, size = size, _size(part, text)
            if first is not None:
                raise _refusal(text, "names the size twice")
    if slowdown is not None and slowdown <= 0:
        raise _refusal(text, "leaves no time to record anything")
    if size is not None and size <= 2 * RESERVED_BYTES:
        raise _refusal(text, f"leaves no room to record anything (a recording needs {2 * RESERVED_BYTES:,} bytes)")
    return size, slowdown


def _size(part: str, text: str | None) -> int:
    try:
        return parse_size(part, least=0)
    except UsageError as error:
        raise _refusal(text, "must be a size, a slowdown in percent, or both") from error


def _refusal(text: str | None, why: str) -> UsageError:
    return UsageError(f'"--budget {text}" {why}. Try --budget 200MB,20%.')


@dataclass(slots=True)
class _Time:
    """The time of some steps, in seconds."""

    own_s: float = 0.0
    run_s: float = 0.0
    num_steps: int = 0

    def add(self, own_s: float, run_s: float) -> None:
        self.own_s += own_s
        self.run_s += run_s
        self.num_steps += 1


class Budget:
    """What may still be spent, and what is left out because of it.

    `num_steps` is how many steps are to be recorded when that is known; `has` the stages that would leave out
    anything in this recording.
    """

    def __init__(
        self,
        max_bytes: int | None,
        max_slowdown: float | None,
        *,
        num_steps: int | None,
        has: frozenset[Stage] = frozenset(Stage),
    ) -> None:
        self._max_bytes = max_bytes - RESERVED_BYTES if max_bytes is not None else None
        self._max_slowdown = max_slowdown
        self._steps_left = num_steps
        self._stages = sorted(has | {Stage.NOTHING, Stage.STEPS})
        self._first, self._others = _Time(), _Time()
        self._num_recorded = 0
        self._resumes = self._next_step = self._thinned = 0
        self.spacing = 1
        """Steps whose number this power of two divides are recorded."""
        self.used_bytes = 0
        self.stage = Stage.NOTHING
        self.since: dict[Stage, int] = {}
        """The step from which on each stage was left out."""

    @property
    def allowance(self) -> int | None:
        """Bytes that the next step may take; None for any number."""
        if self._max_bytes is None:
            return None
        reserved = self._max_bytes // HISTORY_SHARE if self._steps_left is None else 0
        left = max(0, self._max_bytes - reserved - self.used_bytes)
        return left // max(1, self._steps_left or 1)

    @property
    def tensor_allowance(self) -> int | None:
        """Bytes of `allowance` that whole tensors may take: those of later steps are kept in mind."""
        allowance = self.allowance
        return allowance // OPEN_END_SHARE if allowance is not None and self._steps_left is None else allowance

    def allowed_s(self, run_s: float) -> float | None:
        """Return the seconds that the observer may take in a step of which the run takes `run_s`; None for any."""
        return None if self._max_slowdown is None else self._max_slowdown * run_s

    @property
    def slowdown(self) -> float | None:
        """The observer's time as a share of the run's, over all steps judged so far; None before there was one."""
        judged = self._judged
        return judged.own_s / judged.run_s if judged.run_s > 0 else None

    @property
    def _judged(self) -> _Time:
        return self._others if self._others.num_steps else self._first

    def records(self, step: int) -> bool:
        """Tell whether `step` is recorded."""
        spacing = self.spacing
        if self._thinned:
            spacing = max(spacing, 1 << max(0, step.bit_length() - 1 - MOST_THINNED + self._thinned))
        return self.stage < Stage.STEPS and step >= self._resumes and step % spacing == 0

    @property
    def history_bytes(self) -> int | None:
        """Bytes that the numbers of every step may take in full; None for any number."""
        return None if self._max_bytes is None else self._max_bytes // HISTORY_SHARE

    def leave_out(self, stage: Stage, step: int) -> None:
        """Leave out everything up to `stage` from `step` on."""
        for passed in self._stages:
            if self.stage < passed <= stage:
                self.since.setdefault(passed, step)
        self.stage = max(self.stage, stage)

    def share(self, num_ranks: int) -> None:
        """Take only this rank's part of the size, before anything is spent."""
        if self._max_bytes is not None:
            self._max_bytes = (self._max_bytes + RESERVED_BYTES) // num_ranks - RESERVED_BYTES

    def next_stage(self, stage: Stage) -> Stage:
        """Return the stage after `stage` that leaves out more in this recording."""
        return next((later for later in self._stages if later > stage), Stage.STEPS)

    def spend(self, num_bytes: int) -> None:
        """Account for what was written of a step.

        Without a known number of steps only some are recorded once half of the size is used: four between a power of
        two and the next one, then two, then one. A run of any length has steps in detail far into it.
        """
        self.used_bytes += num_bytes
        if self._max_bytes is None or self._steps_left is not None:
            return
        left = max(1, self._max_bytes - self._max_bytes // HISTORY_SHARE - self.used_bytes)
        while self._thinned < MOST_THINNED and self._max_bytes > (2 << self._thinned) * left:
            self._thinned += 1
            self.since.setdefault(Stage.STEPS, self._next_step)

    def end_step(self, step: int, own_s: float, run_s: float, *, was_recorded: bool) -> None:
        """Account for the time of a step (the observer's, and the run's without it) and decide on the next."""
        is_first = not self._first.num_steps
        (self._first if is_first else self._others).add(own_s, run_s)
        self._num_recorded += was_recorded
        self._next_step = step + 1
        if self._steps_left is not None:
            self._steps_left -= 1
        if not was_recorded or self._max_slowdown is None or is_first or own_s <= self._max_slowdown * run_s:
            return
        wanted = next((later for later in self._stages if later > self.stage and later in _SAVES_TIME), Stage.STEPS)
        if wanted < Stage.STEPS:
            self.leave_out(wanted, step + 1)
        else:
            self._pause(step + 1, own_s)

    def _pause(self, step: int, own_s: float) -> None:
        """Record so few steps that the run's time outweighs the observer's, from the step on at which it does."""
        assert self._max_slowdown is not None
        judged = self._judged
        owed_s = judged.own_s / self._max_slowdown - judged.run_s
        usual_s = max(judged.run_s / judged.num_steps, 1e-6)
        while self.spacing < min(MAX_SPACING, own_s / (self._max_slowdown * usual_s)):
            self.spacing *= 2
        self._resumes = step + max(0, math.ceil(owed_s / usual_s))
        self.since.setdefault(Stage.STEPS, step)

    def sentences(self) -> list[str]:
        """Return what the budget left out of the run, for its end."""
        told = [
            f"the budget left out {LEFT_OUT[stage]} from step {step} on"
            for stage, step in self.since.items()
            if stage < Stage.STEPS
        ]
        if Stage.STEPS in self.since:
            num_steps = self._first.num_steps + self._others.num_steps
            told.append(
                f"the budget left out whole steps from step {self.since[Stage.STEPS]} on: "
                f"{self._num_recorded} of {num_steps} steps are recorded"
            )
        slowdown = self.slowdown
        if self._max_slowdown is not None and slowdown is not None and slowdown > self._max_slowdown:
            told.append(
                f"recording slowed the run by {slowdown:.0%}, more than the {self._max_slowdown:.0%} of the budget: "
                "a step is judged when it is over"
            )
        return told
