"""The measurements of one graph: plans as trials, within the run's budget, with time kept back for the end.

`Standings` holds where the plans stand: the gain of each against eager, by paired measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Protocol

from jumar.tune.graph import Graph
from jumar.tune.measure.measuring import LEAST_SHARE_S, SHARE, OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.messages import Effort, Outcome, Trial
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Stack
from jumar.tune.plan import Plan
from jumar.tune.search.subgraph.outcome import Attempt, Stage, plan_id

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


CONFIRMATION_SEED = 1000
"""Added to the seed, so that the last two measurements have inputs that no screening had."""
_SPARE = 1.5
"""The last measurements are given this much more time than they are expected to take."""
_TAKEN_OVER_S = 0.05
_START_S = 6.0
"""For a fresh process that reads weights and loads two plans, before any was measured."""
_COMPARISONS = 12
"""Calls for warming up and for comparing outputs on several inputs, the reference in float64 among them."""


SLOW_SHARE = 0.5
"""The share of the time that is left for a candidate that compiles; for one that is quick to build it is `SHARE`."""
MOST_RESERVED = 0.35
"""Of a graph's time, kept back for the last measurements at most: on a busy machine they seem to take all of it."""
SLOW = 5.0
"""Times the usual limit, for engines that compile and for last measurements, where the budget has so much."""


class Measures(Protocol):
    """What carries trials out within a budget: `jumar.tune.measure.measuring.Measurer`."""

    def prepare(
        self, trials: Sequence[Trial], reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> None:
        """Do for screenings that follow what can be done at once, each within `limit_s`, of the `full_s` it deserves.

        All of them together leave `reserve_s` of the time.
        """

    def screen(
        self, trial: Trial, reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> Outcome:
        """Carry out a screening within `limit_s`, of the `full_s` it deserves, that leaves `reserve_s` of the time.

        Raises OutOfBudget.
        """

    def confirm(self, trial: Trial, limit_s: float | None = None) -> Outcome:
        """Carry out what belongs to a screening that was counted, within `limit_s`. Raises OutOfBudget."""

    def elapsed_s(self) -> float:
        """Return the seconds since the run began."""


class GraphFailed(Exception):
    """The graph itself cannot be run here."""


@dataclass(slots=True, kw_only=True)
class Trials:
    """Measures plans of one graph."""

    graph: Graph
    data: str
    machine: Machine
    options: TuneOptions
    measures: Measures
    eager: Plan | None
    """Eager as a plan; None where there is no such engine."""
    error_budget: float | None
    deadline_s: float | None
    """In `Measures.elapsed_s`: no screening begins so late that the last measurements would not fit; None: none."""
    attempts: list[Attempt] = field(default_factory=list)
    slow: frozenset[str] = frozenset()
    """Names of the engines that are slow to build."""
    reserve_s: float = 0.0
    """Seconds kept back for the last measurements."""
    _overhead_s: float = _START_S
    """Least time of a screening besides its timed part: process, weights, loading, comparing."""
    _num_learned: int = 0
    _began_s: float = 0.0

    def __post_init__(self) -> None:
        self._began_s = self.measures.elapsed_s()

    _took_s: dict[str, float] = field(default_factory=dict)
    """Longest screening by engines."""

    def prepare(self, plans: Iterable[Plan]) -> None:
        """Let plans that will be screened against eager be compiled at once, where several may be."""
        asked = list(plans)
        if not asked:
            return
        limit_s, full_s = min(map(self._limit_s, asked)), max(map(self._full_s, asked))
        trials = [self.trial(plan, None, quick(self.options)) for plan in asked]
        self.measures.prepare(trials, self._reserve_s(), limit_s, full_s)

    def screen(
        self, plan: Plan, against: Plan | None, stage: Stage, effort: Effort | None = None, share: float | None = None,
        take: int = 0,
    ) -> Outcome:  # fmt: skip
        """Measure `plan` against another (None: eager) within its share of the time that is left.

        `take` counts measurements of the same two. Raises OutOfBudget and GraphFailed.
        """
        self._check_time(plan)
        begun = self.measures.elapsed_s()
        trial = self.trial(plan, against, effort or quick(self.options), take=take)
        outcome = self.measures.screen(trial, self._reserve_s(), self._limit_s(plan, share), self._full_s(plan))
        self._learn(plan, outcome, self.measures.elapsed_s() - begun)
        return self._noted(plan, against, stage, outcome)

    def confirm(self, plan: Plan, against: Plan | None, stage: Stage, take: int) -> Outcome:
        """Measure a plan at length, in a fresh process, on other inputs; `take` counts such measurements.

        Raises OutOfBudget and GraphFailed.
        """
        limit_s = self.options.limits.time_s * SLOW  # it has run before, and two dozen slow calls take their time
        trial = self.trial(plan, against, final(self.options), CONFIRMATION_SEED, take)
        outcome = self.measures.confirm(trial, limit_s)
        return self._noted(plan, against, stage, outcome)

    def leave_out(self, plan: Plan, why: str, *, is_judged: bool = True) -> None:
        """Note that a plan is not measured on purpose; one that is not judged by that is taken up by the next run."""
        outcome = Outcome(status="failed" if is_judged else "unfinished", phase="candidate", detail=why)
        self.attempts.append(Attempt(plan=plan, against=None, stage="engines", outcome=outcome, is_left_out=True))

    def part(self, graph: Graph, data: Path, plan: Plan) -> Outcome:
        """Measure a part of the graph under `plan` against eager, as a screening. Raises OutOfBudget."""
        self._check_time(plan)
        return self.measures.screen(
            Trial(
                task=graph, incumbent=(), candidate=(plan.policy(),), num_threads=self.machine.num_threads,
                seed=self.options.seed, min_gain=0.0, effort=quick(self.options), data=str(data),
                error_budget=self.error_budget,
            ),
            self._reserve_s(),
            self._limit_s(plan),
            self._full_s(plan),
        )  # fmt: skip

    def trial(self, plan: Plan, against: Plan | None, effort: Effort, seed: int = 0, take: int = 0) -> Trial:
        """Return the comparison of two plans as a trial."""
        against, effort = settled(plan, against, self.eager, effort)
        return Trial(
            task=self.graph, incumbent=stack(against), candidate=stack(plan), num_threads=self.machine.num_threads,
            seed=self.options.seed + seed, take=take, min_gain=self.options.min_gain, effort=effort, data=self.data,
            error_budget=self.error_budget,
        )  # fmt: skip

    def keep_for_the_end(self, gain: Gain | None) -> None:
        """Keep back what the last two measurements will take of a plan with this gain; what they run is built."""
        if gain is None:
            return
        effort = final(self.options)
        pair_s = (gain.before_us + gain.after_us) / 1e6
        timed_s = max(effort.seconds, effort.least_pairs(pair_s) * pair_s)
        once_s = self._overhead_s + timed_s + _COMPARISONS * pair_s
        self.reserve_s = 2 * _SPARE * once_s
        if self.deadline_s is not None:
            self.reserve_s = min(self.reserve_s, MOST_RESERVED * (self.deadline_s - self._began_s))

    def is_late(self) -> bool:
        """Tell whether the graph's time is over."""
        return self.deadline_s is not None and self.measures.elapsed_s() >= self.deadline_s

    def _learn(self, plan: Plan, outcome: Outcome, took_s: float) -> None:
        """Remember how long screenings take; the first one, with which the worker starts, as the guess for others."""
        if took_s < _TAKEN_OVER_S:
            return  # it was measured by an earlier run
        self._num_learned += 1
        engines, gain = _engines(plan), outcome.gain
        if self._num_learned > 1:
            self._took_s[engines] = max(self._took_s.get(engines, 0.0), took_s)
        if gain is not None:
            timed_s = gain.num_pairs * gain.calls_per_sample * (gain.before_us + gain.after_us) / 1e6
            seen_s = max(took_s - timed_s, 0.0)
            self._overhead_s = seen_s if self._num_learned == 2 else min(self._overhead_s, seen_s)

    def _limit_s(self, plan: Plan, share: float | None = None) -> float:
        """Return how long a candidate may take: what it deserves, within its share."""
        full_s = self._full_s(plan)
        if self.deadline_s is None:
            return full_s
        share = share or (SLOW_SHARE if self._is_slow(plan) else SHARE)
        left_s = self.deadline_s - self.measures.elapsed_s() - self.reserve_s
        return min(full_s, max(share * left_s, LEAST_SHARE_S))

    def _full_s(self, plan: Plan) -> float:
        """Return how long a candidate deserves: as the options say, longer where it compiles."""
        return self.options.limits.time_s * (SLOW if self._is_slow(plan) else 1.0)

    def _is_slow(self, plan: Plan) -> bool:
        return any(region.engine in self.slow for region in plan.regions)

    def _check_time(self, plan: Plan) -> None:
        if self.deadline_s is None:
            return
        expected = self._took_s.get(_engines(plan), 0.0)
        if self.measures.elapsed_s() + expected + self.reserve_s > self.deadline_s:
            raise OutOfBudget("--time-budget")

    def _reserve_s(self) -> float:
        """Return what is kept back of the run's whole time: for the end of this graph, and for the next graphs."""
        budget = self.options.time_budget_s
        if budget is None or self.deadline_s is None:
            return self.reserve_s
        return self.reserve_s + max(0.0, budget - self.deadline_s)

    def _noted(self, plan: Plan, against: Plan | None, stage: Stage, outcome: Outcome) -> Outcome:
        self.attempts.append(Attempt(plan=plan, against=against, stage=stage, outcome=outcome))
        is_early = outcome.status not in {"measured", "unfinished"} and outcome.phase in {"start", "task"}
        if against is None and (outcome.status == "task-failed" or is_early):
            raise GraphFailed(f"{outcome.status}: {outcome.detail}")
        return outcome


def stack(plan: Plan | None) -> Stack:
    """Return the stack of a plan; of None, eager, the empty one."""
    return () if plan is None else (plan.policy(),)


def settled(plan: Plan, against: Plan | None, eager: Plan | None, effort: Effort) -> tuple[Plan | None, Effort]:
    """Return what `plan` is compared with, `against` (None: eager), and how.

    Where one of them keeps memory, the first call after each change of sides pays for pages and is not timed; and
    eager is a plan too, which gives kept memory back before it runs.
    """
    if (plan.memory == "keep") == (against is not None and against.memory == "keep"):
        return against, effort
    return against or eager, replace(effort, settling_calls=1)


def _engines(plan: Plan) -> str:
    return " ".join(sorted({str(region) for region in plan.regions}))


_QUICK_PAIRS = 7
"""The fewest pairs with a bounded 95 % interval are six."""


def quick(options: TuneOptions) -> Effort:
    """Return the effort of a first look: enough to tell 5 % from 50 %."""
    effort = options.screening
    return replace(effort, min_pairs=min(_QUICK_PAIRS, effort.min_pairs), max_pairs=min(31, effort.max_pairs))


def duel(options: TuneOptions) -> Effort:
    """Return the effort of a comparison of two leaders."""
    return options.screening


def final(options: TuneOptions) -> Effort:
    """Return the effort of a confirmation."""
    return options.confirmation
