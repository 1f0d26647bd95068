"""Job 1 of a run: the graphs of a model one after the other, then their precision where one was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.tune.bank.database import now
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.bank.store import Bank
from jumar.tune.graph import Graph
from jumar.tune.measure.measuring import Measurer, OutOfBudget
from jumar.tune.measure.options import PrecisionOptions, Space, TuneOptions
from jumar.tune.model.machine import Machine
from jumar.tune.model.process import reason
from jumar.tune.search.precision.outcome import Point, PrecisionOutcome
from jumar.tune.search.subgraph.cuts import work_of
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.subgraph.trials import Measures
from jumar.tune.search.subgraph.tune import tune_graph

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured
    from jumar.tune.search.outcome import TuneResult

SHARE = 0.5
"""Of a graph's time, kept back for its precision."""
STEPS_KEEP = "Training steps keep their precision: --precision is for graphs of inference."
OF_A_PIECE = (
    "This is a piece of a model that is no single graph: error and budget are of what the piece hands on, and what "
    "they come to in the model's outputs is not measured."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionJob:
    """Searches the precision of graphs into a result."""

    precision: PrecisionOptions
    machine: Machine
    options: TuneOptions
    measures: Measures
    result: TuneResult
    folder: Path
    """Where precision files are written."""
    bank: Bank | None = None
    """Keeps what was chosen, for runs that ask for that budget; None: nothing is kept."""

    def first_deadline_s(self, graph: Graph, deadline_s: float | None) -> float | None:
        """Return until when a graph may be tuned in its own precision, of a deadline for both."""
        if deadline_s is None or not self.precision.is_asked or graph.gradients:
            return deadline_s
        elapsed = self.measures.elapsed_s()
        return elapsed + (1 - SHARE) * (deadline_s - elapsed)

    def tune(
        self, captured: Captured, tuned: GraphOutcome, deadline_s: float | None, on_step: Callable[[str], None]
    ) -> None:
        """Search one graph's precision, if that is asked for and the graph can be run at all.

        Training steps are left out: their gradients are PyTorch's to compute, in its precision. Raises InputError for
        a precision file that cannot be read, OutputError when files cannot be written, and BankError, before anything
        is measured, when the bank cannot.
        """
        if not self.precision.is_asked or tuned.failure:
            return
        if captured.graph.gradients:
            if STEPS_KEEP not in self.result.notes:
                self.result.notes.append(STEPS_KEEP)
            return
        if self.bank is not None:
            self.bank.check_writable()
        outcome = PrecisionOutcome(
            name=captured.name, budget=self.precision.budget, metric=self.precision.metric,
            min_gain=self.options.min_gain,
        )  # fmt: skip
        if tuned.stopped_by:
            outcome.notes.append(
                f"The search in the graph's own precision was ended by {tuned.stopped_by}: the reference may not be "
                "its best plan, and a part of the gains may be an engine's."
            )
        self.result.precisions.append(outcome)
        on_step("precision")
        try:
            from jumar.tune.search.precision.search import tune_precision

            tune_precision(
                captured.graph, str(captured.data), outcome=outcome, reference=tuned.plan or tuned.baseline,
                machine=self.machine, options=self.options, precision=self.precision, measures=self.measures,
                deadline_s=deadline_s,
            )  # fmt: skip
        except KeyboardInterrupt as error:
            outcome.stopped_by = reason(error)
            self._conclude(captured, outcome)
            raise
        self._conclude(captured, outcome)

    def _conclude(self, captured: Captured, outcome: PrecisionOutcome) -> None:
        """Write down what was chosen, also by a search that was interrupted after that."""
        if outcome.chosen is not None:
            outcome.notes += [OF_A_PIECE] if captured.is_piece else []
            self._keep(captured, outcome.chosen)
            from jumar.tune.search.precision.request.files import write_files

            outcome.files = write_files(captured.graph, outcome.chosen, self.folder, captured.name, taken=self._taken())
        elif self.precision.file is None and outcome.points and not outcome.is_open:
            self._forget(captured)

    def _taken(self) -> list[Path]:
        """Return the files that must stay: the one that was given, and those of this run's other graphs."""
        given = [] if self.precision.file is None else [self.precision.file]
        return given + [path for one in self.result.precisions for path in one.files]

    def _keep(self, captured: Captured, chosen: Point) -> None:
        """Write the chosen point into the bank, for these weights and this budget. Raises BankError."""
        if self.bank is None:
            return
        asked = self._asked(captured)
        self.bank.keep_precision(
            KnownPrecision(asked=asked, error=chosen.error, plan=chosen.plan, gain=chosen.gain, updated=now())
        )

    def _forget(self, captured: Captured) -> None:
        """Remove from the bank what was chosen for this budget before: it is not faster any more. Raises BankError."""
        if self.bank is not None:
            self.bank.forget_precision(self._asked(captured))

    def _asked(self, captured: Captured) -> AskedPrecision:
        from jumar.tune.graph.capture.data import load
        from jumar.tune.plan.built import fingerprint

        values = load(captured.data)
        weights = {place: values[place] for place in captured.graph.constants}
        return AskedPrecision(
            task=captured.graph, machine=self.machine, weights=fingerprint(weights),
            budget=self.precision.budget, metric=self.precision.metric,
        )  # fmt: skip


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
