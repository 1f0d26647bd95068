"""Where the plans of one graph stand: each one's gain against eager, by paired measurement."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from jumar.tune.model.gate import Gain
from jumar.tune.plan import Plan
from jumar.tune.search.subgraph.outcome import plan_id

FAR_BEHIND = 2.0
"""An engine whose first settings take this many times the leader's time gets no further settings measured."""

NEAR = 1.15
"""Plans within this factor of the best are compared with it directly."""

WIDE = 1.2
"""An interval from 1 to this, and wider, tells little: other programs used the machine, too."""


@dataclass(slots=True)
class Standings:
    """All that was measured against eager."""

    eager: Plan | None
    """Eager as a plan; None where there is no such engine."""
    _gains: dict[str, tuple[Plan, Gain]] = field(default_factory=dict)

    def add(self, plan: Plan, gain: Gain) -> None:
        """Note what a plan gains; of two measurements the one with the narrower interval counts."""
        known = self.gain(plan)
        if known is None or _width(gain) < _width(known):
            self._gains[plan_id(plan)] = (plan, gain)

    def gain(self, plan: Plan) -> Gain | None:
        """Return what a plan gains; None when it has no measurement."""
        known = self._gains.get(plan_id(plan))
        return None if known is None else known[1]

    def ratio(self, plan: Plan) -> float:
        """Return eager's time over the plan's; 0 for a plan without a measurement."""
        if same(plan, self.eager):
            return 1.0
        gain = self.gain(plan)
        return 0.0 if gain is None else gain.ratio

    def doubtful(self) -> list[Plan]:
        """Return the plans with a wide interval that leaves open whether they are the fastest, the likeliest first."""
        best = self.best_gain()
        if best is None:
            return []
        found = [
            (gain.ratio_high, plan)
            for plan, gain in self._gains.values()
            if _width(gain) > WIDE and gain.ratio_high > best.ratio_low
        ]
        return [plan for _, plan in sorted(found, key=lambda one: one[0], reverse=True)]

    def duellists(self) -> list[Plan]:
        """Return the plans that are near the best, or may be it: the best of each engine first, fastest first."""
        best = self.best_gain()
        least = 1.0 if best is None else best.ratio_low
        near = [
            plan for plan in self.ranked() if self.ratio(plan) * NEAR >= self.best_ratio() or self._may_be(plan, least)
        ]
        of_engines = [plan for plan in self.best_of_engines().values() if plan in near]
        return [*of_engines, *(plan for plan in near if plan not in of_engines)]

    def _may_be(self, plan: Plan, ratio: float) -> bool:
        gain = self.gain(plan)
        return gain is not None and gain.ratio_high > ratio

    def best_ratio(self) -> float:
        """Return the greatest ratio; 1 when nothing was measured."""
        return max((gain.ratio for _, gain in self._gains.values()), default=1.0)

    def best_gain(self) -> Gain | None:
        """Return the gain of the fastest plan."""
        return max((gain for _, gain in self._gains.values()), key=lambda gain: gain.ratio, default=None)

    def eager_us(self) -> float | None:
        """Return eager's time: the median over all measurements."""
        times = [gain.before_us for _, gain in self._gains.values()]
        return median(times) if times else None

    def ranked(self) -> list[Plan]:
        """Return all that was measured, and eager, fastest first."""
        plans = [*([] if self.eager is None else [self.eager]), *(plan for plan, _ in self._gains.values())]
        return sorted(plans, key=self.ratio, reverse=True)

    def best_of_engines(self) -> dict[str, Plan]:
        """Return the best plan of each engine, fastest first."""
        best: dict[str, Plan] = {}
        for plan in self.ranked():
            best.setdefault(plan.regions[0].engine, plan)
        return best

    def leaders(self, count: int) -> list[Plan]:
        """Return the best plans of the engines that are not far behind, fastest first, `count` at most."""
        found = self.best_of_engines().values()
        return [plan for plan in found if self.ratio(plan) * FAR_BEHIND > self.best_ratio()][:count]


def _width(gain: Gain) -> float:
    return gain.ratio_high / gain.ratio_low


def same(plan: Plan, other: Plan | None) -> bool:
    """Tell whether two plans are one."""
    return other is not None and plan_id(plan) == plan_id(other)
