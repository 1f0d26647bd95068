"""Plans to points: each is measured against the reference, and its error is that of the outputs of that very plan."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jumar.tune.graph import Graph
from jumar.tune.measure.measuring import LEAST_SHARE_S, SHARE, OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.messages import Effort, Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.search.precision.examiner import SEEDS, Errors, Examines
from jumar.tune.search.precision.outcome import CONFIRMATION, Lost, Point, PrecisionOutcome
from jumar.tune.search.subgraph.trials import CONFIRMATION_SEED, Measures, settled, stack

WORTHLESS = 1.0
"""An output as wrong as it is great says nothing: such a plan is no point, whatever the budget."""
_END = 2.0
"""The confirmation, and finding its errors, take about this many times as long as the longest screening."""
OTHER_SEEDS = (SEEDS[0], *(CONFIRMATION_SEED + seed for seed in SEEDS[1:]))
"""Of the inputs on which a confirmation finds errors: the real ones, which are all there are, and other random sets."""


class MetricFailed(Exception):
    """The user's metric raised; the message says what."""


@dataclass(slots=True, kw_only=True)
class Points:
    """Measures plans of one graph within the run's budget, and keeps what came of them in the outcome."""

    graph: Graph
    data: str
    machine: Machine
    options: TuneOptions
    measures: Measures
    examiner: Examines
    reference: Plan | None
    """What everything is measured against; None: eager."""
    outcome: PrecisionOutcome
    eager: Plan | None = None
    """Eager as a plan; None where there is no such engine."""
    metric: str = ""
    deadline_s: float | None = None
    """End of this graph's share of the time, in `Measures.elapsed_s`; None: the run's."""
    _longest_s: float = 0.0
    _before: list[Gain] = field(default_factory=list)

    def screen(self, plan: Plan, lowering: Lowering, what: str) -> Point | None:
        """Measure a plan; None (and a note of it) when there is no point. Raises OutOfBudget and MetricFailed."""
        begun = self.measures.elapsed_s()
        trial = self._trial(plan, self.options.screening)
        found = self.measures.screen(trial, reserve_s=self._reserve_s(), limit_s=self._limit_s())
        if found.status == "unfinished":  # the next run takes it up
            self.outcome.stopped_by = "--time-budget"
        point = self._point(found, plan, lowering, what)
        if found.gain is not None:
            self._longest_s = max(self._longest_s, self.measures.elapsed_s() - begun)
        if point is not None:
            self.outcome.points.append(point)
        return point

    def check_time(self) -> None:
        """Raise OutOfBudget when this graph's share of the time is used up but for the confirmation."""
        if self._left_s() < 0:
            raise OutOfBudget("--time-budget")

    def _left_s(self) -> float:
        """Return what is left of this graph's share of the time but for the confirmation; infinite without a budget."""
        ends = [one for one in (self.deadline_s, self.options.time_budget_s) if one is not None]
        return min(ends, default=math.inf) - self.measures.elapsed_s() - _END * self._longest_s

    def _limit_s(self) -> float:
        """Return how long a candidate may take: as the options say, within a share, as one that hangs takes it all."""
        return min(self.options.limits.time_s, max(SHARE * self._left_s(), LEAST_SHARE_S))

    def _reserve_s(self) -> float:
        """Return how much of the run's time a screening must leave: for the confirmation, and beyond the deadline."""
        budget, deadline = self.options.time_budget_s, self.deadline_s
        beyond = 0.0 if budget is None or deadline is None else max(0.0, budget - deadline)
        return _END * self._longest_s + beyond

    def confirm(self, point: Point) -> Point | None:
        """Measure a point once more, at length, on other inputs: the new point, or None. Raises OutOfBudget."""
        found = self.measures.confirm(self._trial(point.plan, self.options.confirmation, CONFIRMATION_SEED))
        again = self._point(found, point.plan, point.lowering, CONFIRMATION, OTHER_SEEDS)
        if again is None:
            return None
        if not again.errors and (errors := self._examined(point.plan, CONFIRMATION, OTHER_SEEDS)) is not None:
            again = replace(again, error=max(again.error, errors.worst), errors=errors.outputs)
        return replace(again, error=max(again.error, point.error), is_confirmed=True)

    def add_reference(self) -> None:
        """Make the reference a point, with its time from all trials and its own error."""
        if not self._before:
            return
        errors = self._examined(self.reference, "reference")
        if errors is None:
            return
        median = statistics.median(gain.before_us for gain in self._before)
        mean = statistics.fmean(gain.mean_before_us for gain in self._before)
        gain = Gain(
            before_us=median, after_us=median, mean_before_us=mean, mean_after_us=mean, ratio=1.0, ratio_low=1.0,
            ratio_high=1.0, num_pairs=sum(gain.num_pairs for gain in self._before),
        )  # fmt: skip
        plan = self.reference or Plan(regions=())
        self.outcome.points.append(
            Point(
                plan=plan,
                gain=gain,
                error=errors.judged(),
                errors=errors.outputs,
                metric=errors.metric,
                is_reference=True,
            )
        )

    def _trial(self, plan: Plan, effort: Effort, seed: int = 0) -> Trial:
        against, effort = settled(plan, self.reference, self.eager, effort)
        return Trial(
            task=self.graph, incumbent=stack(against), candidate=stack(plan),
            num_threads=self.machine.num_threads, seed=self.options.seed + seed, min_gain=0.0, effort=effort,
            data=self.data, error_budget=WORTHLESS,
        )  # fmt: skip

    def _point(
        self, found: Outcome, plan: Plan, lowering: Lowering, what: str, seeds: Sequence[int] = SEEDS
    ) -> Point | None:
        if found.gain is None or found.worst_error is None or not math.isfinite(found.worst_error):
            self.outcome.lost.append(Lost(plan=str(plan), precision=what, status=found.status, detail=found.detail))
            return None
        self._before.append(found.gain)
        point = Point(plan=plan, gain=found.gain, error=found.worst_error, lowering=lowering)
        return self._with_errors(point, what, seeds) if self.metric or len(self.graph.outputs) > 1 else point

    def _with_errors(self, point: Point, what: str, seeds: Sequence[int]) -> Point | None:
        """Add what the trial does not say: the error of each output, and the metric."""
        errors = self._examined(point.plan, what, seeds)
        if errors is None:
            return None
        if errors.metric_failed:
            raise MetricFailed(errors.metric_failed)
        error = max(point.error, errors.worst) if errors.metric is None else errors.judged()
        return replace(point, error=error, errors=errors.outputs, metric=errors.metric)

    def _examined(self, plan: Plan | None, what: str, seeds: Sequence[int] = SEEDS) -> Errors | None:
        try:
            return self.examiner.lowering(Lowering()) if plan is None else self.examiner.plan(plan, seeds)
        except TuneError as error:
            self.outcome.lost.append(Lost(plan=str(plan), precision=what, status="failed", detail=str(error)))
            return None


def fastest_first(points: Sequence[Point], budget: float, min_gain: float) -> list[Point]:
    """Return the points within the budget whose gain clears the gate, the fastest beyond doubt first."""
    fit = [point for point in points if not point.is_reference and point.fits(budget) and point.gain.clears(min_gain)]
    return sorted(fit, key=lambda point: -point.gain.ratio_low)
