"""Points of latency and error, and which of them are not beaten by another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jumar.base.findings import Json
from jumar.tune.model.gate import Gain
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering import Lowering


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
