"""How the search went: what was tried, when, and what became of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.base.text.digits import Cell
from jumar.show.blocks.page import BarChart, Block, Column, LineChart, Section, Series, Table, Text
from jumar.tune.measure.measuring import Measurement
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.search.outcome import TaskOutcome

if TYPE_CHECKING:
    from jumar.tune.search.subgraph.outcome import Attempt, GraphOutcome


MOST_LINES = 6
_ROLES = {"screening": "screening candidates", "confirmation": "confirming the best", "build": "compiling in parallel"}
_SLOWEST = 10


def progress(history: Sequence[Measurement], wall_s: float) -> Section | None:
    """Return the section, or None when nothing was measured in this run."""
    new = [one for one in history if not one.reused]
    if not new:
        return None
    blocks: list[Block] = [*_chart(history), *_where(new, wall_s)]
    return Section(title="How the search went", blocks=blocks)


def best_so_far(measurements: Sequence[Measurement]) -> list[tuple[float, float]]:
    """Return (seconds, how many times as fast as at first) after each measurement that went that far.

    At first is the time of the first measurement's incumbent, the default; each time is a screening's or a
    confirmation's own, so the line is what the search saw, not what was proven.
    """
    timed = [one for one in measurements if one.before_us is not None and one.after_us is not None]
    if not timed or timed[0].before_us is None:
        return []
    first = best = timed[0].before_us
    line = []
    for one in timed:
        if one.after_us is not None and one.status == "measured":
            best = min(best, one.after_us)
            line.append((one.at_s, first / best))
    return line


def _chart(history: Sequence[Measurement]) -> list[Block]:
    names = defaultdict(list)
    for one in history:
        names[one.name].append(one)
    lines = [(name, line) for name, those in names.items() if len(line := best_so_far(those)) > 1]
    lines.sort(key=lambda pair: -pair[1][-1][1])
    if not lines:
        return []
    series = [
        Series(name=name, x=[round(at, 2) for at, _ in line], y=[ratio for _, ratio in line])
        for name, line in lines[:MOST_LINES]
    ]
    note = (
        "The best that was seen by each moment, over the default; screenings, so a little better than what is proven."
    )
    more = len(lines) - MOST_LINES
    if more > 0:
        note += f" The {MOST_LINES} with the greatest gains are drawn, {more} more are in the tables below."
    chart = LineChart(
        title="Speed-up seen so far", x_label="seconds since the start", y_label="times as fast", series=series
    )
    return [chart, Text(text=note)]


def _where(new: Sequence[Measurement], wall_s: float) -> list[Block]:
    roles: dict[str, float] = defaultdict(float)
    providers: dict[str, float] = defaultdict(float)
    lost: dict[str, float] = defaultdict(float)
    for one in new:
        roles[_ROLES[one.role]] += one.took_s
        providers[one.provider] += one.took_s
        if one.status not in {"measured", "built"}:
            lost[one.status] += one.took_s
    roles["everything else"] = max(0.0, wall_s - sum(roles.values()))
    slowest = sorted(new, key=lambda one: -one.took_s)[:_SLOWEST]
    charts = [
        BarChart(title="Where the time went", unit="s", bars=_sorted(roles)),
        BarChart(title="By who computes", unit="s", bars=_sorted(providers)),
    ]
    if lost:
        charts.append(BarChart(title="Spent on candidates that gave no measurement", unit="s", bars=_sorted(lost)))
    bars = [(f"{one.candidate} · {one.name}", one.took_s) for one in slowest]
    return [*charts, BarChart(title="The longest candidates", unit="s", bars=bars)]


def _sorted(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda pair: -pair[1])


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
