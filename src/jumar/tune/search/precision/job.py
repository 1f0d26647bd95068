"""Precision within a run of job 1: what follows once a graph's best plan in its own precision is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.tune.bank import AskedPrecision, Bank, KnownPrecision
from jumar.tune.bank.storage.database import now
from jumar.tune.graph import Graph
from jumar.tune.measure.options import TuneOptions
from jumar.tune.model.ending import reason
from jumar.tune.model.machine import Machine
from jumar.tune.search.precision.front import Point
from jumar.tune.search.precision.outcome import PrecisionOutcome
from jumar.tune.search.precision.request.files import write_files
from jumar.tune.search.precision.request.options import PrecisionOptions
from jumar.tune.search.precision.search import tune_precision
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.subgraph.trials import Measures

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
    """Keeps what was chosen for who asks for that budget; None: nobody does."""

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
