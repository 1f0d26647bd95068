"""What a search for precision found: points of latency and error, and which points no other point beats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.findings import Json
from jumar.tune.model.gate import Gain
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering.lowering import Lowering, LowPrecision
from jumar.tune.search.subgraph.outcome import NOT_JUDGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way to compute the graph, measured: nothing here is predicted."""

    plan: Plan
    gain: Gain
    """Against the best plan in the graph's own precision, paired and interleaved."""
    error: float
    """What the budget is for: the metric's where there is one, else the greatest of `errors`."""
    errors: tuple[float, ...] = ()
    """For each output, then each input that is written to: greatest difference over the reference's greatest value,
    over all inputs."""
    metric: float | None = None
    lowering: Lowering = field(default_factory=Lowering)
    """Which operators of the graph are computed in fewer bits, however the plan says so."""
    is_reference: bool = False
    """The plan that the others are compared with."""
    is_confirmed: bool = False
    """Measured once more, in a fresh process with other inputs; `gain` and `error` are of both."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Point:
        """Rebuild a point from `to_json`. Raises KeyError, TypeError, ValueError or TuneError on foreign input."""
        return cls(
            plan=Plan.from_json(data["plan"]),
            gain=Gain.from_json(data["gain"]),
            error=float(data["error"]),
            errors=tuple(map(float, data["errors"])),
            metric=None if data["metric"] is None else float(data["metric"]),
            lowering=Lowering.from_json(data["lowering"]),
            is_reference=data["is_reference"],
            is_confirmed=data["is_confirmed"],
        )

    @property
    def time_us(self) -> float:
        """Median time of a call."""
        return self.gain.after_us

    def fits(self, budget: float) -> bool:
        """Tell whether the error is within the budget; one that is not finite never is."""
        return math.isfinite(self.error) and self.error <= budget

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values; an infinite number is the string `inf`."""
        return {
            "name": self.name,
            "time_us": self.time_us,
            "error": _plain(self.error),
            "errors": [*map(_plain, self.errors)],
            "metric": None if self.metric is None else _plain(self.metric),
            "gain": self.gain.to_json(),
            "plan": self.plan.to_json(),
            "lowering": self.lowering.to_json(),
            "is_reference": self.is_reference,
            "is_confirmed": self.is_confirmed,
        }

    @property
    def name(self) -> str:
        """`openvino, 52 int8`; the plan alone where it says itself what is lowered."""
        lowered = "" if self.plan.lowering or not self.lowering else f", {self.lowering}"
        return f"{self.plan}{lowered}"


def pareto(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats, the slowest and most exact first.

    A point is beaten by one that is at least as fast and at least as exact, and better in one of the two. Times are
    compared by their ratio to the same reference, which paired measurement makes comparable.
    """
    front: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.gain.ratio, one.error)):
        if math.isfinite(point.error) and all(point.error < other.error for other in front):
            front.append(point)
    return front[::-1]


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else "inf"


CONFIRMATION = "confirmation"
"""What the last measurement, in the place of a precision, is called where a plan is lost in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A plan that was not measured, or whose result is worthless."""

    plan: str
    precision: str
    status: str
    """As `Outcome.status`; `disagrees`: outputs that are not finite, or more wrong than their greatest value."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """An operator whose values a precision cannot hold."""

    name: str
    precision: LowPrecision
    greatest: float
    """Greatest absolute value seen on the inputs."""


@dataclass(slots=True, kw_only=True)
class PrecisionOutcome:
    """The latency-error points of one graph, all of them measured, and the one that was chosen."""

    name: str
    budget: float
    metric: str = ""
    min_gain: float = 0.0
    points: list[Point] = field(default_factory=list)
    chosen: Point | None = None
    """The fastest within the budget whose gain clears the gate, confirmed; None: the graph keeps its precision."""
    lost: list[Lost] = field(default_factory=list)
    overflows: Sequence[Overflow] = ()
    metric_failed: str = ""
    """What the user's metric raised; nothing was chosen then."""
    missing: Mapping[LowPrecision, str] = field(default_factory=dict)
    """Precision to why this processor does not compute in it."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Engine to why it was not tried."""
    num_units: int = 0
    num_simulated: int = 0
    """Runs of the lowered graph by PyTorch that guided the search; no error of a point comes from them."""
    unmeasured: str = ""
    """Why there was nothing to measure, as one sentence; empty where there was something."""
    notes: list[str] = field(default_factory=list)
    stopped_by: str = ""
    failure: str = ""
    """Why the graph could not be examined at all."""
    files: Sequence[Path] = ()
    """The vendor's two files and Jumar's, for the chosen point."""

    @property
    def is_open(self) -> bool:
        """Tell whether something could not be judged, so that nothing may be concluded from choosing nothing."""
        is_broken = bool(self.stopped_by or self.failure or self.metric_failed)
        return is_broken or any(one.status in NOT_JUDGED for one in self.lost)

    def front(self) -> list[Point]:
        """Return the points that no other beats, the slowest and most exact first."""
        return pareto(self.points)

    def most_exact(self) -> Point | None:
        """Return the point with the least error that is faster than the reference; None when none is."""
        faster = [point for point in self.points if not point.is_reference and point.gain.clears(self.min_gain)]
        return min(faster, key=lambda point: point.error, default=None)

    def lost_in_confirmation(self, point: Point) -> Lost | None:
        """Return what became of a point's last measurement where that gave no other point; None without any."""
        found = [one for one in self.lost if one.precision == CONFIRMATION and one.plan == str(point.plan)]
        return found[-1] if found else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        front = {id(point) for point in self.front()}
        return {
            "name": self.name,
            "budget": self.budget,
            "metric": self.metric or None,
            "min_gain": self.min_gain,
            "points": [
                point.to_json()
                | {
                    "is_on_front": id(point) in front,
                    "is_within_budget": point.fits(self.budget),
                    "is_chosen": self.chosen is not None and point is self.chosen,
                }
                for point in sorted(self.points, key=lambda point: point.gain.ratio)
            ],
            "chosen": None if self.chosen is None else self.chosen.to_json(),
            "lost": [
                {"plan": one.plan, "precision": one.precision, "status": one.status, "detail": one.detail}
                for one in self.lost
            ],
            "overflows": [
                {"name": one.name, "precision": one.precision, "greatest": one.greatest} for one in self.overflows
            ],
            "metric_failed": self.metric_failed,
            "missing": dict(self.missing),
            "left_out": dict(self.left_out),
            "num_units": self.num_units,
            "num_simulated": self.num_simulated,
            "unmeasured": self.unmeasured,
            "notes": list(self.notes),
            "stopped_by": self.stopped_by,
            "failure": self.failure,
            "files": [str(path) for path in self.files],
        }
