"""Before and after, with intervals: operators, graphs, and points of latency and error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jumar.base.text.digits import Cell
from jumar.show.blocks.page import Block, Column, KeyValues, LineChart, Section, Series, Table, Text
from jumar.tune.model.gate import Gain
from jumar.tune.search.outcome import TaskOutcome

if TYPE_CHECKING:
    from jumar.tune.search.precision.outcome import Point, PrecisionOutcome
    from jumar.tune.search.subgraph.outcome import GraphOutcome

_NUMBERS = (
    Column(title="Before", unit="us", number=True),
    Column(title="After", unit="us", number=True),
    Column(title="Faster", unit="%", number=True, bar=True, digits=3),
    Column(title="95 % interval", unit="%"),
    Column(title="Pairs", number=True),
)

_ESTIMATED = "Times of an analytic model of the chip: an estimate, not a measurement."


def operators(tasks: Sequence[TaskOutcome]) -> Section | None:
    """Return the policies of operators, the greatest gain first; None when there are none."""
    found = [
        (slot.gain.ratio, [task.use.name, f"{slot.kind} {slot.policy}", *_gain(slot.gain), slot.action])
        for task in tasks
        for slot in task.slots
        if slot.policy is not None and slot.gain is not None
    ]
    if not found:
        return None
    rows = [row for _, row in sorted(found, key=lambda pair: -pair[0])]
    columns = [Column(title="Operator", code=True), Column(title="Policy", code=True), *_NUMBERS, Column(title="Bank")]
    is_estimate = any(slot.gain.is_estimate for task in tasks for slot in task.slots if slot.gain is not None)
    note = _ESTIMATED if is_estimate else "Medians and the 95 % interval of the paired measurement in a fresh process."
    return Section(title="Operators, before and after", blocks=[Table(columns=columns, rows=rows), Text(text=note)])


def graphs(outcomes: Sequence[GraphOutcome]) -> Section | None:
    """Return the graphs with their plans, and the blocks of those that were cut; None when there are none."""
    if not outcomes:
        return None
    names = [Column(title=title, code=True) for title in ("Graph", "Plan", "Instead of")]
    columns = [*names, *_NUMBERS, Column(title="Bank")]
    rows: list[list[Cell]] = []
    for one in outcomes:
        plan = str(one.plan) if one.plan is not None else "as it was"
        rows.append([one.name, plan, one.instead_of, *_gain(one.gain), one.failure or one.action])
    blocks: list[Block] = [Table(columns=columns, rows=rows)]
    if any(one.gain is not None and one.gain.is_estimate for one in outcomes):
        blocks.append(Text(text=_ESTIMATED))
    for one in outcomes:
        blocks += _regions(one)
    return Section(title="Graphs, before and after", blocks=blocks)


def _regions(one: GraphOutcome) -> list[Block]:
    """Return what each block of a graph takes under each engine, and what stitching promised and gave."""
    cutting = one.cutting
    if cutting is None or not cutting.blocks:
        return []
    engines = sorted({engine for block in cutting.blocks for engine in block.engines_us})
    columns = [Column(title="Block", number=True), Column(title="Operators", number=True)]
    columns += [Column(title=engine, unit="us", number=True) for engine in engines]
    columns.append(Column(title="Fastest alone"))
    rows: list[list[Cell]] = []
    for number, block in enumerate(cutting.blocks):
        times = block.engines_us
        best = min(times, key=lambda engine: times[engine], default="")
        rows.append([number, block.num_operators, *(times.get(engine) for engine in engines), best])
    blocks: list[Block] = [Table(title=f"Blocks of {one.name}", columns=columns, rows=rows)]
    if cutting.stitched:
        stitched = [
            Column(title="Engines of the blocks", code=True), Column(title="Promised", unit="us", number=True),
            Column(title="Measured, end to end", unit="us", number=True),
        ]  # fmt: skip
        told: list[list[Cell]] = [
            [" ".join(each.engines), each.promised_us, each.measured_us] for each in cutting.stitched
        ]
        title = f"Stitched together, against {cutting.best_whole} for the whole: {cutting.whole_us:.4g} us"
        blocks.append(Table(title=title, columns=stitched, rows=told))
    if cutting.reason:
        blocks.append(Text(text=cutting.reason))
    return blocks


def precisions(outcomes: Sequence[PrecisionOutcome]) -> Section | None:
    """Return the latency-error points of each graph and the front of those that no other beats."""
    blocks: list[Block] = []
    for one in outcomes:
        if one.points:
            blocks += _front(one)
    return Section(title="Precision: latency against error", blocks=blocks) if blocks else None


def _front(one: PrecisionOutcome) -> list[Block]:
    front = one.front()
    series = [
        Series(name="not beaten by another", x=[p.error for p in front], y=[p.gain.ratio for p in front]),
        *(
            Series(name=name, x=[point.error], y=[point.gain.ratio])
            for name, point in (("chosen", one.chosen), ("reference", next((p for p in front if p.is_reference), None)))
            if point is not None
        ),
    ]
    rows: list[list[Cell]] = [
        [
            point.name, _standing(point, one, front), point.error,
            point.fits(one.budget), point.metric, *_gain(point.gain),
        ]
        for point in sorted(one.points, key=lambda point: -point.gain.ratio)
    ]  # fmt: skip
    columns = [
        Column(title="Plan", code=True), Column(title=""), Column(title="Error", number=True, digits=3),
        Column(title="Within the budget"), Column(title="Metric", number=True), *_NUMBERS,
    ]  # fmt: skip
    marked = [index for index, row in enumerate(rows) if row[1] == "chosen"]
    facts: list[tuple[str, Cell]] = [("Budget", one.budget), ("Metric", one.metric or "greatest relative error")]
    facts += [("Files", ", ".join(map(str, one.files)))] if one.files else []
    facts += [("Note", note) for note in one.notes]
    facts += [("Stopped by", one.stopped_by)] if one.stopped_by else []
    return [
        LineChart(
            title=f"{one.name}: the front", x_label="error", y_label="times as fast as the reference", series=series
        ),
        KeyValues(items=facts),
        Table(title=f"{one.name}: every point", columns=columns, rows=rows, marked=marked),
    ]


def _standing(point: Point, one: PrecisionOutcome, front: Sequence[Point]) -> str:
    if point is one.chosen:
        return "chosen"
    return "" if any(point is other for other in front) else "beaten"


def _gain(gain: Gain | None) -> list[Cell]:
    if gain is None:
        return [None] * len(_NUMBERS)
    numbers: list[Cell] = [gain.before_us, gain.after_us, (gain.ratio - 1) * 100]
    return [*numbers, gain.interval, None if gain.is_estimate else gain.num_pairs]
