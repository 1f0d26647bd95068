"""`ProfilePlan`: what to profile and where, in a form that child processes inherit. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jumar.base.errors import UsageError

ENVIRONMENT = "JUMAR_PROFILE_PLAN"

SKIP, WARM_UP, ACTIVE = 5, 1, 5
NUM_PLAIN = 3
"""Steps without the profiler, before and after the window, that its overhead is measured against."""

Phase = Literal["skip", "warm-up", "active", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePlan:
    """What a profile holds. Raises UsageError when a field breaks its rule."""

    out: str
    """Folder of the profile."""
    skip: int = SKIP
    """Steps before the window, without the profiler."""
    warm_up: int = WARM_UP
    """Steps in which the profiler runs and what it sees is thrown away."""
    active: int = ACTIVE
    """Steps in the trace."""
    ranks: tuple[int, ...] | None = None
    """Ranks that are profiled; None for all."""
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    time_limit_s: float | None = None
    """End the window with the step in which it has lasted so long."""
    growth_limit_bytes: int | None = None
    """End the window with the step in which the process has grown by so much."""
    stop: bool = False
    """End the script `NUM_PLAIN` steps after the window."""
    force: bool = False
    """Replace a profile that is already there."""
    prepared: bool = False
    """The folder was made by the process that started the run."""
    command: tuple[str, ...] = ()
    """The script and its arguments."""

    def __post_init__(self) -> None:
        if min(self.skip, self.warm_up) < 0 or self.active < 1:
            raise UsageError(
                "a profile skips and warms up 0 steps or more and has 1 active step or more; got "
                f"{self.skip}, {self.warm_up} and {self.active}. Try --skip {SKIP} --active {ACTIVE}."
            )
        if self.time_limit_s is not None and self.time_limit_s <= 0:
            raise UsageError(f"the time limit must be above 0 seconds; got {self.time_limit_s:g}. Try 60.")

    @property
    def first(self) -> int:
        """The first step in the trace."""
        return self.skip + self.warm_up

    @property
    def end(self) -> int:
        """The step after the last one in the trace."""
        return self.first + self.active

    def phase(self, step: int) -> Phase:
        """Return what is done in a step."""
        if step < self.skip:
            return "skip"
        if step < self.first:
            return "warm-up"
        return "active" if step < self.end else "after"

    def wants(self, rank: int) -> bool:
        """Return whether a rank is profiled."""
        return self.ranks is None or rank in self.ranks

    def to_environment(self) -> dict[str, str]:
        """Return the variables that make child processes ranks of this profile."""
        return {ENVIRONMENT: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ProfilePlan | None:
        """Return the plan that the variables hold, or None. Raises UsageError when they hold something else."""
        text = environ.get(ENVIRONMENT)
        if not text:
            return None
        try:
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
            }
            return cls(**fields)
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{ENVIRONMENT} must hold a plan made by Jumar ({error}). Unset it to go on.") from error


def schedule_of(
    steps: tuple[int, int] | None, skip: int | None = None, warm_up: int | None = None, active: int | None = None
) -> tuple[int, int, int]:
    """Return a plan's `skip`, `warm_up` and `active` for the traced `steps` (first, end), or for the numbers given.

    A warm-up step that does not fit before the first step is left out. Raises UsageError where both are given, or the
    steps are none.
    """
    warm_up = WARM_UP if warm_up is None else warm_up
    if steps is None:
        return SKIP if skip is None else skip, warm_up, ACTIVE if active is None else active
    if skip is not None or active is not None:
        raise UsageError("the traced steps say already how many are skipped and active. Give one of the two.")
    first, end = steps
    if not 0 <= first < end:
        raise UsageError(f"steps must be START:END with 0 <= START < END; got {first}:{end}. Try 5:10.")
    before = min(warm_up, first)
    return first - before, before, end - first
