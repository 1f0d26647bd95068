"""`RecordPlan`: what to record and where, in a form that child processes inherit. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from jumar.errors import UsageError
from jumar.recording import Level, Values

ENVIRONMENT = "JUMAR_RECORD_PLAN"
STOP_ENVIRONMENT = "JUMAR_STOP_AFTER"
"""Number of completed steps after which every process of the run ends cleanly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """What a recording holds. Raises UsageError when a level, value or step range is not one there is."""

    out: str
    """Folder of the recording."""
    levels: tuple[Level, ...] = ("module", "op")
    values: Values = "stats"
    steps: tuple[int, int] | None = None
    """First step and the step after the last; None for all."""
    force: bool = False
    """Replace a recording that is already there."""
    prepared: bool = False
    """The folder was made by the process that started the run: join it, as one rank."""
    command: tuple[str, ...] = ()
    """The script and its arguments."""

    def __post_init__(self) -> None:
        unknown = [level for level in self.levels if level not in get_args(Level)]
        if unknown or not self.levels:
            raise UsageError(f"levels are module and op; got {', '.join(unknown) or 'none'}. Try --level module,op.")
        if self.values not in get_args(Values):
            raise UsageError(f"values are {', '.join(get_args(Values))}; got {self.values}. Try --values stats.")
        if self.steps is not None and not 0 <= self.steps[0] < self.steps[1]:
            raise UsageError(f"steps must be START:END with 0 <= START < END; got {self.steps}. Try --steps 0:3.")

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
