"""What a page of tuning is made of: the parts of a run, whichever job it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.base.text.digits import Cell
    from jumar.show.blocks.page import Verdict
    from jumar.tune.measure.conditions.preconditions import Conditions
    from jumar.tune.measure.history import Measurement
    from jumar.tune.search.outcome import TaskOutcome
    from jumar.tune.search.precision.outcome import PrecisionOutcome
    from jumar.tune.search.subgraph.outcome import GraphOutcome
    from jumar.tune.search.tasks.extract import NotTuned


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRun:
    """One run, finished or not."""

    verdict: Verdict
    min_gain: float
    wall_s: float
    machine: str
    is_estimate: bool = False
    """Whether times are those of an analytic model."""
    findings: Sequence[Finding] = ()
    operators: Sequence[TaskOutcome] = ()
    """Job 2."""
    graphs: Sequence[GraphOutcome] = ()
    """Job 1."""
    precisions: Sequence[PrecisionOutcome] = ()
    history: Sequence[Measurement] = ()
    conditions: Conditions | None = None
    not_tuned: Sequence[NotTuned] = ()
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, Cell]] = ()
    """How the run was made, in names and values: source, bank, result file."""
