"""Job 1 of a run: the graphs of a model, one after the other, each with its share of the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jumar.tune.bank import Bank
from jumar.tune.measure.measuring import Measurer, OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.model.ending import reason
from jumar.tune.model.machine import Machine
from jumar.tune.search.precision.job import PrecisionJob
from jumar.tune.search.subgraph.cuts import work_of
from jumar.tune.search.subgraph.offers import Space
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.subgraph.tune import tune_graph

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured
    from jumar.tune.search.outcome import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphJob:
    """Tunes graphs into a result."""

    bank: Bank
    machine: Machine
    options: TuneOptions
    measurer: Measurer
    space: Space
    result: TuneResult
    on_progress: Callable[[int, int, str], None] | None
    write: Callable[[], None]
    """Brings the result file up to date."""
    precision: PrecisionJob
    """What follows for each graph."""

    def tune(self, graphs: Sequence[Captured]) -> None:
        """Tune each graph. Raises OutOfBudget, after the last graph, when a search of either kind was cut short."""
        loads = [self._load(captured) for captured in graphs]
        for number, captured in enumerate(graphs):
            outcome = GraphOutcome(name=captured.name, graph=captured.graph)
            self.result.graphs.append(outcome)
            self.measurer.name = captured.name

            def step(what: str, number: int = number, name: str = captured.name) -> None:
                self._say(number, len(graphs), f"{name}: {what}")
                self.write()

            step("the bank")
            try:
                deadline_s = self._deadline_s(loads[number:])
                tune_graph(
                    captured, bank=self.bank, machine=self.machine, options=self.options, measures=self.measurer,
                    space=self.space, deadline_s=self.precision.first_deadline_s(captured.graph, deadline_s),
                    on_step=step, outcome=outcome,
                )  # fmt: skip
                self.precision.tune(captured, outcome, deadline_s, step)
            except KeyboardInterrupt as error:
                outcome.stopped_by = reason(error)
                raise
            finally:
                self.write()
        self._say(len(graphs), len(graphs), "")
        reasons = [one.stopped_by for one in self.result.graphs] + [one.stopped_by for one in self.result.precisions]
        if stopped := next(filter(None, reasons), ""):
            raise OutOfBudget(stopped)

    def _deadline_s(self, loads: Sequence[float]) -> float | None:
        """Return when the first of the graphs that are left must end: its share, by its work, of the time left."""
        budget = self.options.time_budget_s
        if budget is None:
            return None
        elapsed = self.measurer.elapsed_s()
        return elapsed + (budget - elapsed) * loads[0] / sum(loads)

    @staticmethod
    def _load(captured: Captured) -> float:
        graph = captured.graph
        first = len(graph.inputs)
        return 1.0 + sum(work_of(graph, value) for value in range(first, first + len(graph.nodes)))

    def _say(self, done: int, total: int, what: str) -> None:
        if self.on_progress is not None:
            self.on_progress(done, total, what)
