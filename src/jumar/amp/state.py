"""What amp keeps for the whole process: the level, the scalers, functions registered for one dtype."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jumar.amp.cast import casting
from jumar.amp.cast.levels import Level
from jumar.amp.scale.origins import SkippedStep
from jumar.amp.scale.scaler import LossScaler

KEPT_SKIPS = 10_000


@dataclass(slots=True)
class Amp:
    """The one state that a process has."""

    level: Level | None = None
    disabled: bool = False
    """`initialize(enabled=False)` was called last: losses are not scaled."""
    scalers: list[LossScaler] = field(default_factory=list)
    num_decisions: list[int] = field(default_factory=list)
    """Decisions about a step so far, for each loss."""
    skipped: list[SkippedStep] = field(default_factory=list)
    verbosity: int = 1
    registered: list[tuple[Any, str, Callable[[Any], Any]]] = field(default_factory=list)

    def stop_casts(self) -> None:
        """End O1's casts of functions, and with them the level."""
        if self.level is not None and self.level.patch_torch_functions:
            casting.stop_casting_functions()
            self.level = None


STATE = Amp()


def say(text: str) -> None:
    """Write a line where Apex does, for the people and the log readers who wait for it."""
    sys.stdout.write(f"{text}\n")
