"""What was tried and why it was not taken: every candidate of the run, with the reason in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.report.page import Cell, Column, Section, Table
from jumar.tune.outcome import TaskOutcome
from jumar.tune.worker.messages import Outcome

if TYPE_CHECKING:
    from jumar.tune.subgraph.outcome import Attempt, GraphOutcome

TAKEN = "taken"
_COLUMNS = (
    Column(title="Of", code=True),
    Column(title="Candidate", code=True),
    Column(title="What became of it"),
    Column(title="Times as fast", number=True, digits=3),
    Column(title="At least", number=True, digits=3),
    Column(title="Error", number=True, digits=2),
    Column(title="Against", code=True),
)


def tried(operators: Sequence[TaskOutcome], graphs: Sequence[GraphOutcome], min_gain: float) -> Section | None:
    """Return every candidate of this run; None when the bank answered for all."""
    rows = [*_of_operators(operators, min_gain), *_of_graphs(graphs, min_gain)]
    if not rows:
        return None
    table = Table(columns=_COLUMNS, rows=rows, marked=[i for i, row in enumerate(rows) if row[2] == TAKEN])
    return Section(title="What was tried, and why it was not taken", blocks=[table], collapsed=len(rows) > 40)


def _of_operators(tasks: Sequence[TaskOutcome], min_gain: float) -> Iterator[list[Cell]]:
    for task in tasks:
        for slot in task.slots:
            for one in slot.tried:
                taken = slot.action in {"add", "update"} and one.policy == slot.policy
                words = TAKEN if taken else why_not(one.outcome, min_gain)
                yield _row(task.use.name, str(one.policy), "the best before", one.outcome, words)


def _of_graphs(outcomes: Sequence[GraphOutcome], min_gain: float) -> Iterator[list[Cell]]:
    for graph in outcomes:
        for one in graph.attempts:
            against = "eager" if one.against is None else str(one.against)
            words = _of_attempt(graph, one, min_gain)
            yield _row(graph.name, str(one.plan), f"{against} ({one.stage})", one.outcome, words)


def _of_attempt(graph: GraphOutcome, one: Attempt, min_gain: float) -> str:
    """Return what became of one measurement of a graph; the plan that was taken has several."""
    if one.is_left_out:
        return one.outcome.detail
    if one.outcome.gain is None or graph.action not in {"add", "update"} or graph.plan != one.plan:
        return why_not(one.outcome, min_gain)
    return TAKEN if one.stage == "confirmation" else "of the plan that was taken"


def _row(name: str, candidate: str, against: str, outcome: Outcome, words: str) -> list[Cell]:
    gain = outcome.gain
    numbers: list[Cell] = [None, None] if gain is None else [gain.ratio, gain.ratio_low]
    return [name, candidate, words, *numbers, outcome.worst_error, against]


def why_not(outcome: Outcome, min_gain: float) -> str:
    """Return in words why a candidate was not taken."""
    gain = outcome.gain
    if gain is None:
        return f"{outcome.status}: {outcome.detail}" if outcome.detail else outcome.status
    if gain.ratio_high < 1:
        return "slower"
    if not gain.clears(min_gain):
        return f"its interval begins at {(gain.ratio_low - 1) * 100:+.1f} %, the gate is {min_gain * 100:g} %"
    return "faster; another was faster still, or it did not hold in a fresh process"
