"""What the histories of two runs say together: `Drift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Change = Literal[
    "setting", "calls", "input", "random", "loss", "clipped", "gradient", "state", "parameter", "buffer", "copy"
]
"""What changed where a drift begins. `random`: a generator's state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """The step at which a drift begins, and what changed there."""

    step: int
    change: Change
    what: str
    """`AdamW: lr of group 0`, `exp_avg_sq of AdamW`."""
    sentence: str
    evidence: Mapping[str, str | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftPoint:
    """How far the runs are apart at the end of a step, each figure relative to the norm; None where it is not known."""

    step: int
    reference_loss: float | None
    target_loss: float | None
    distances: Mapping[str, float]
    """By what is compared: `gradient of AdamW`, `parameters`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The runs of one rank over all steps that both histories have."""

    rank: int
    points: Sequence[DriftPoint]
    num_steps: tuple[int, int]
    """Steps of the reference's history and of the target's."""
    onset: Onset | None = None
    others: Sequence[Onset] = ()
    """What changed later, or beside."""
    growth: float | None = None
    """By how much the distance of the parameters grew a step, in the mean; None where that is not known."""
    first_distance: float | None = None
    """The distance of the parameters after the first common step."""
