"""The search for precision: whole graphs first, then mixtures, every point measured from end to end.

1. The whole graph in each precision by each engine that can. A precision that is no faster there is not mixed.
2. For engines that gained, and where the whole graph errs too much: each unit alone in each precision, run by
   PyTorch, gives its error; an assignment within the budget is searched on those (`assign`), built and measured.
   What the engine's error is against the simulated one corrects the target, up to `ROUNDS` times.
3. The same for a smaller and a greater budget, so that the front has points on both sides.
4. The fastest within the budget is confirmed in a fresh process, on other inputs; else the next.

With a precision file instead of `auto`, its list is measured in each precision by each engine, and 4. An engine that
has a setting for the precision is given it for the units whose operators are all on the list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph, Reference
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.options import PrecisionOptions, TuneOptions
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering.lowering import GREATEST, PRECISIONS, Lowering, LowPrecision, Range
from jumar.tune.plan.lowering.rewrite import effective, rounded
from jumar.tune.search.precision.assign import Assigner, Assignment, Costs, units_of
from jumar.tune.search.precision.examiner import Errors, Examiner, Examines
from jumar.tune.search.precision.measured import MetricFailed, Points, fastest_first
from jumar.tune.search.precision.outcome import Overflow, Point, PrecisionOutcome
from jumar.tune.search.precision.request.files import PrecisionFile, with_file_read
from jumar.tune.search.precision.request.lists import node_names
from jumar.tune.search.precision.ways import Model, Way, arithmetic, ways_of
from jumar.tune.search.subgraph.search import eager_plan
from jumar.tune.search.subgraph.trials import Measures

ROUNDS = 3
MAX_MIXED_WAYS = 2
"""Engines for which mixtures are searched, the fastest first."""
MARGIN = 0.95
"""Of a target that is corrected."""
FURTHER = (0.2, 5.0)
"""Times the budget: targets for the front besides the chosen point."""


def tune_precision(
    graph: Graph,
    data: str,
    *,
    outcome: PrecisionOutcome,
    reference: Plan | None,
    machine: Machine,
    options: TuneOptions,
    precision: PrecisionOptions,
    measures: Measures,
    engines: Sequence[Engine] | None = None,
    examiner: Examines | None = None,
    deadline_s: float | None = None,
) -> None:
    """Search the precisions of `graph`, whose weights and inputs are in the file `data`, into `outcome`.

    `reference` is its best plan so far (None: eager), what gains are against. `examiner` finds errors (None: a
    process of its own). `deadline_s`, in `measures.elapsed_s`, is the end of this graph's share of the time. What was
    found stays in `outcome` when the search is interrupted. Raises InputError for a precision file that cannot be
    read; everything else that goes wrong is in the outcome.
    """
    from jumar.tune.plan.engines import ENGINES

    engines = ENGINES if engines is None else engines
    precision = with_file_read(precision)
    examiner = examiner or Examiner(
        graph, data, num_threads=machine.num_threads, limits=options.limits, metric=precision.metric
    )
    points = Points(
        graph=graph, data=data, machine=machine, options=options, measures=measures, examiner=examiner,
        reference=reference, outcome=outcome, metric=precision.metric, deadline_s=deadline_s,
        eager=eager_plan(engines),
    )  # fmt: skip
    try:
        _Search(
            graph=graph, machine=machine, options=options, precision=precision, examiner=examiner, points=points,
            outcome=outcome, engines=engines,
        ).carry_out()  # fmt: skip
    finally:
        examiner.close()


@dataclass(slots=True, kw_only=True)
class _Search:
    graph: Graph
    machine: Machine
    options: TuneOptions
    precision: PrecisionOptions
    examiner: Examines
    points: Points
    outcome: PrecisionOutcome
    engines: Sequence[Engine]
    _model: Model = field(init=False)
    _whole: dict[tuple[str, LowPrecision], Point] = field(default_factory=dict)
    _ways: dict[str, Way] = field(default_factory=dict)
    _errors: dict[tuple[int, LowPrecision, bool], float] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Search, then confirm; what stops either is in the outcome."""
        try:
            self._examine()
            self._search()
            self._choose()
        except TuneError as error:
            self.outcome.failure = str(error)
        except MetricFailed as error:
            self.outcome.metric_failed = str(error)
        except OutOfBudget as stop:
            self.outcome.stopped_by = str(stop)
        self.points.add_reference()

    def _search(self) -> None:
        """Measure points until all are there or the budget is used up."""
        try:
            if self.precision.content is not None:
                self._measure_file(self.precision.content)
            else:
                self._measure_whole()
                self._measure_mixed()
        except OutOfBudget as stop:
            self.outcome.stopped_by = str(stop)

    def _examine(self) -> None:
        """Find what values there are. Raises TuneError when the graph does not run, or the metric is none."""
        graph, outcome = self.graph, self.outcome
        self._check_metric(self.examiner.lowering(Lowering()))
        units = units_of(graph)
        outcome.num_units = len(units)
        outcome.missing = arithmetic()
        everything: dict[Reference, LowPrecision] = dict.fromkeys(_nodes(graph), "int8")
        needed = {one for early in (False, True) for one in rounded(graph, Lowering(nodes=everything, early=early))}
        ranges = self.examiner.ranges(sorted(needed))
        self._model = Model(graph=graph, units=units, machine=self.machine, ranges=ranges)
        outcome.overflows = _overflows(graph, self.examiner.extremes())
        if not units:
            self._leave("The graph has no product or convolution, so that nothing is worth fewer bits.")

    def _check_metric(self, unlowered: Errors) -> None:
        """Refuse a metric that finds the model too wrong in its own precision. Raises MetricFailed.

        An accuracy, or a likeness, is 1 of outputs that are right and 0 of wrong ones: those would be within every
        budget.
        """
        if unlowered.metric_failed:
            raise MetricFailed(unlowered.metric_failed)
        if unlowered.metric is None:
            return
        if not math.isfinite(unlowered.metric):
            raise MetricFailed("it returned no finite number for the model in its own precision")
        if unlowered.metric > self.precision.budget:
            raise MetricFailed(
                f"it says {unlowered.metric:.3g} of the model in its own precision, where 0 is no error and "
                f"{self.precision.budget:g} is allowed"
            )

    def _precisions(self) -> list[LowPrecision]:
        return [name for name in PRECISIONS if name not in self.outcome.missing]

    def _measure_whole(self) -> None:
        if not self._model.units:
            return
        ways, self.outcome.left_out = ways_of(self.graph, self.machine, self.engines, self._precisions())
        for way, precision in ways:
            whole: Assignment = (precision,) * len(self._model.units)
            made = [self._measure(way, whole, plan, precision) for plan in self._plans(way, whole)]
            found = [point for point in made if point is not None]
            if found:
                best = max(found, key=lambda point: point.gain.ratio)
                self._whole[way.name, precision] = best
        self._ways = {way.name: way for way, _ in ways}
        if not self._is_begun() and not _may_be_lowered(self.graph):
            self._leave("None of the graph's products and convolutions is of float32: those of other types stay so.")

    def _plans(self, way: Way, assignment: Assignment) -> list[Plan]:
        try:
            return self._model.plans(way, assignment)
        except (TuneError, ValueError) as error:  # a border that is no single tensor
            self.outcome.notes.append(f"{way.name} takes no mixture: {error}")
            return []

    def _measure(self, way: Way, assignment: Assignment, plan: Plan, what: str) -> Point | None:
        return self.points.screen(plan, self._effective(self._model.lowering(assignment, early=way.early)), what)

    def _effective(self, lowering: Lowering) -> Lowering:
        return replace(lowering, nodes=effective(self.graph, lowering))

    def _measure_mixed(self) -> None:
        """Search mixtures for the engines that gained most with the whole graph."""
        best = {
            name: max(point.gain.ratio for (one, _), point in self._whole.items() if one == name)
            for name in {name for name, _ in self._whole}
        }
        for name in sorted(best, key=lambda name: -best[name])[:MAX_MIXED_WAYS]:
            usable = {
                precision: point
                for (one, precision), point in self._whole.items()
                if one == name and point.gain.ratio_low > 1
            }
            if usable and len(self._model.units) > 1:
                self._mix(self._ways[name], usable)

    def _mix(self, way: Way, usable: dict[LowPrecision, Point]) -> None:
        costs = self._costs(way, usable)
        assigner = Assigner(costs, partial(self._simulated, early=way.early))
        budget = self.precision.budget
        for factor in (1.0, *FURTHER):
            if factor >= 1 and all(point.fits(budget * factor) for point in usable.values()):
                continue  # the whole graph is within it
            self._approach(way, assigner, budget * factor, rounds=ROUNDS if factor == 1 else 1)

    def _approach(self, way: Way, assigner: Assigner, budget: float, rounds: int) -> None:
        """Measure the assignment that simulation finds within the budget, and correct by what was measured."""
        target = budget
        tried: set[Assignment] = set()
        while len(tried) < rounds:
            assignment = assigner.within(target)
            if assignment is None or assignment in tried:
                return
            tried.add(assignment)
            point = self._known(way, assignment) or self._measure_first(way, assignment)
            simulated = assigner.error(assignment)
            if point is None or not math.isfinite(point.error) or not point.error or not simulated:
                return
            target = MARGIN * budget * simulated / point.error

    def _known(self, way: Way, assignment: Assignment) -> Point | None:
        """Return the point of a whole graph in one precision, which has been measured."""
        first = assignment[0]
        return self._whole.get((way.name, first)) if first is not None and set(assignment) == {first} else None

    def _measure_first(self, way: Way, assignment: Assignment) -> Point | None:
        """Measure an assignment in the settings that were best for the whole graph, else in the first."""
        plans = self._plans(way, assignment)
        best = {str(point.plan.regions[0].settings) for (name, _), point in self._whole.items() if name == way.name}
        plan = next((one for one in plans if str(one.regions[0].settings) in best), plans[0] if plans else None)
        return None if plan is None else self._measure(way, assignment, plan, "mixed")

    def _costs(self, way: Way, usable: dict[LowPrecision, Point]) -> Costs:
        """Return what each unit saves, by its share of the time, and errs, by one run of PyTorch for each."""
        savings = {name: 1 - 1 / point.gain.ratio for name, point in usable.items()}
        units = self._model.units
        for place in range(len(units)):
            for name in usable:
                if (place, name, way.early) not in self._errors:
                    alone: Assignment = tuple(name if one == place else None for one in range(len(units)))
                    self._errors[place, name, way.early] = self._simulated(alone, early=way.early)
        return Costs(
            savings=[{name: unit.share * saving for name, saving in savings.items()} for unit in units],
            errors=[{name: self._errors[place, name, way.early] for name in usable} for place in range(len(units))],
        )

    def _simulated(self, assignment: Assignment, *, early: bool) -> float:
        """Return the error of an assignment as PyTorch computes the lowered graph. Raises OutOfBudget."""
        self.points.check_time()
        self.outcome.num_simulated += 1
        try:
            errors = self.examiner.lowering(self._model.lowering(assignment, early=early))
        except TuneError as error:
            self.outcome.notes.append(str(error))
            return math.inf
        return errors.judged()

    def _measure_file(self, found: PrecisionFile) -> None:
        """Measure what a precision file says, in each precision and by each engine."""
        if found.plan is not None and found.key == self.graph.key:
            self.points.screen(found.plan, found.lowering, Path(self.precision.precision).name)
        ways, self.outcome.left_out = ways_of(self.graph, self.machine, self.engines, self._precisions())
        done: set[tuple[str, str]] = set()
        for way, precision in ways:
            kept, plans = self._listed(way, found.nodes(self.graph, precision))
            key = (way.name, str(sorted(kept.nodes.items())))
            if not kept or key in done:
                continue
            done.add(key)
            for plan in plans:
                self.points.screen(plan, kept, precision)
        if not done and not self._is_begun():
            self._leave(
                f"{self.precision.precision} names no operator of this graph that may be computed in fewer bits here."
            )

    def _is_begun(self) -> bool:
        return bool(self.outcome.points or self.outcome.lost)

    def _leave(self, why: str) -> None:
        """Say why there is nothing to measure."""
        self.outcome.unmeasured = why
        self.outcome.notes.append(why)

    def _listed(self, way: Way, nodes: Mapping[Reference, LowPrecision]) -> tuple[Lowering, list[Plan]]:
        """Return what of a list one way lowers, and the plans that do: whole units where the engine has a setting."""
        if way.in_graph:
            kept = self._effective(self._model.ranged(nodes, early=way.early))
            return kept, self._model.plans_in_graph(way.engine, kept)
        assignment = self._model.assignment(nodes)
        kept = self._effective(self._model.lowering(assignment))
        return kept, self._plans(way, assignment) if kept else []

    def _choose(self) -> None:
        """Confirm the fastest within the budget; the first that holds is chosen."""
        for point in fastest_first(self.outcome.points, self.precision.budget, self.options.min_gain):
            again = self.points.confirm(point)
            if again is None:
                continue
            place = next(number for number, one in enumerate(self.outcome.points) if one is point)
            self.outcome.points[place] = again
            if again.fits(self.precision.budget) and again.gain.clears(self.options.min_gain):
                self.outcome.chosen = again
                self._tell_of_state(again)
                return

    def _tell_of_state(self, chosen: Point) -> None:
        """Say how wrong the inputs are that the graph writes to, where the judge was a metric: it sees outputs only."""
        state = chosen.errors[len(self.graph.outputs) :]
        if self.precision.metric and state:
            self.outcome.notes.append(
                f"The metric sees outputs only: of what the graph writes into {len(state)} of its inputs for the next "
                f"call the error is {max(state):.2g} of the greatest value, which no budget judges."
            )


def _nodes(graph: Graph) -> range:
    return range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))


def _may_be_lowered(graph: Graph) -> bool:
    return bool(effective(graph, Lowering(nodes=dict.fromkeys(_nodes(graph), "bf16"))))


def _overflows(graph: Graph, values: dict[Reference, Range]) -> list[Overflow]:
    """Return the operators that fp16 would be asked to compute and that read or make values it cannot hold."""
    names = node_names(graph)
    greatest = {value: max(map(abs, bounds)) for value, bounds in values.items()}
    found: list[Overflow] = []
    for value in effective(graph, Lowering(nodes=dict.fromkeys(_nodes(graph), "fp16"))):
        node = graph.nodes[value - len(graph.inputs)]
        most = max(greatest.get(one, 0.0) for one in (value, *node.references()))
        if value in names and most > GREATEST["fp16"]:
            found.append(Overflow(name=names[value], precision="fp16", greatest=most))
    return found
