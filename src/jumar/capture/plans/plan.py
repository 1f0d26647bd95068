"""`RecordPlan`: what to record and where, in a form that child processes inherit. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from jumar.base.errors import UsageError
from jumar.recording import Level, Values

ENVIRONMENT = "JUMAR_RECORD_PLAN"
STOP_ENVIRONMENT = "JUMAR_STOP_AFTER"
"""Number of completed steps after which every process of the run ends cleanly."""

DEFAULT_LEVELS: tuple[Level, ...] = ("module", "op")
DEFAULT_VALUES: Values = "sketch"

LEVELS_FOR_TUNING: tuple[Level, ...] = ("op",)
VALUES_FOR_TUNING: Values = "stats"
"""The leanest recording that operators can be tuned from: each call, and the scale of its tensors."""

Compiled = Literal["borders", "graph"]
"""What is recorded of a region that `torch.compile` compiled with a back end that makes kernels of its own:
its inputs and outputs, or each operator of the graph it was compiled from, which then runs in its place."""

Vary = Literal["", "threads", "kernels", "ulp"]
"""Conditions, other than usual, under which a run is recorded to measure its noise floor (`capture.vary`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """What a recording holds. Raises UsageError when a field is not one there is, or has no effect."""

    out: str
    """Folder of the recording."""
    levels: tuple[Level, ...] = DEFAULT_LEVELS
    values: Values = DEFAULT_VALUES
    steps: tuple[int, int] | None = None
    """First step and the step after the last; None for all."""
    tensors_of: tuple[str, ...] = ()
    """Keys of rows, or globs over them (`3:op/forward/…` for step 3 only), whose whole tensors are kept."""
    budget_bytes: int | None = None
    """Greatest size of the recording, all ranks together; None for any."""
    budget_slowdown: float | None = None
    """Greatest time of the observer as a share of the run's own (0.2: 20 %); None for any."""
    compiled: Compiled = "borders"
    vary: Vary = ""
    force: bool = False
    """Replace a recording that is already there."""
    prepared: bool = False
    """The folder was made by the process that started the run: join it, as one rank."""
    command: tuple[str, ...] = ()
    """The script and its arguments."""

    def __post_init__(self) -> None:
        unknown = [level for level in self.levels if level not in get_args(Level)]
        if unknown or not self.levels:
            raise UsageError(
                f"levels are module, op and optimizer; got {', '.join(unknown) or 'none'}. Try --level module,op."
            )
        if self.values not in get_args(Values):
            raise UsageError(f"values are {', '.join(get_args(Values))}; got {self.values}. Try --values sketch.")
        if self.compiled not in get_args(Compiled):
            raise UsageError(f"compiled is borders or graph; got {self.compiled}. Try --compiled borders.")
        if self.vary not in get_args(Vary):
            raise UsageError(f"a run is varied by threads, kernels or ulp; got {self.vary}. Try --vary ulp.")
        if self.steps is not None and not 0 <= self.steps[0] < self.steps[1]:
            raise UsageError(f"steps must be START:END with 0 <= START < END; got {self.steps}. Try --steps 0:3.")
        if self.tensors_of and self.values == "tensors" and not self.has_budget:
            raise UsageError(
                "--tensors-of chooses nothing when --values tensors keeps every tensor. "
                "Leave one of the two out, or give a --budget."
            )

    @property
    def has_budget(self) -> bool:
        """Whether the size of the recording or the slowdown of the run is limited."""
        return self.budget_bytes is not None or self.budget_slowdown is not None

    def to_environment(self) -> dict[str, str]:
        """Return the variables that make child processes record as ranks of this recording."""
        return {ENVIRONMENT: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> RecordPlan | None:
        """Return the plan that the variables hold, or None. Raises UsageError when they hold something else."""
        text = environ.get(ENVIRONMENT)
        if not text:
            return None
        try:
            data = json.loads(text)
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
            }
            return cls(**fields)
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{ENVIRONMENT} must hold a plan made by Jumar ({error}). Unset it to go on.") from error


def stop_after_from(environ: Mapping[str, str]) -> int | None:
    """Return the number of steps after which to stop, or None. Raises UsageError when it is not a number."""
    text = environ.get(STOP_ENVIRONMENT)
    if not text:
        return None
    if not text.isdecimal():
        raise UsageError(f"{STOP_ENVIRONMENT} must be a number of steps; got {text!r}. Unset it to go on.")
    return int(text)
