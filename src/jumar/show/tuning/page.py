"""The whole page of a tuning run, section by section: operators, graphs, points of latency and error, the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jumar.base.text import size_text
from jumar.base.text.digits import Cell
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Block, Column, KeyValues, LineChart, Page, Section, Series, Table, Text
from jumar.show.tuning.search import progress, tried
from jumar.show.tuning.summary import not_tuned, verdict
from jumar.tune.measure.conditions.preconditions import Conditions
from jumar.tune.model.gate import Gain
from jumar.tune.search.outcome import TaskOutcome, TuneResult

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


def machine(run: TuneResult) -> Section:
    """Return the section, which is always there."""
    is_estimate = run.machine.is_estimate
    facts: list[tuple[str, Cell]] = [
        ("Estimated for" if is_estimate else "Measured on", str(run.machine)),
        ("Source", f"{run.recording} ({run.recorded_device})"),
        ("Providers", ", ".join(run.providers)),
        (f"Candidates {'estimated' if is_estimate else 'measured'}", run.num_trials),
        ("Bank", run.bank),
        ("Result file", str(run.result_file)),
        ("Took", f"{run.wall_s:.0f} s"),
    ]
    facts += [(f"Left out: {engine}", why) for graph in run.graphs[:1] for engine, why in graph.left_out.items()]
    blocks: list[Block] = [KeyValues(items=facts)]
    if run.conditions is not None:
        blocks.append(KeyValues(title="The machine when the run began", items=_state(run.conditions)))
    if run.notes:
        blocks.append(Text(text="\n\n".join(run.notes)))
    return Section(title="How it was made", blocks=blocks)


def _state(conditions: Conditions) -> list[tuple[str, Cell]]:
    around = conditions.surroundings
    free = ", ".join(f"{size_text(size)} in {folder}" for folder, size in around.free_bytes.items())
    neighbours = ", ".join(f"{one.name} ({one.share:.1f} cores)" for one in around.neighbours)
    return [
        ("Cores", around.num_cores),
        ("Load average of the last minute", around.load_average),
        ("Other programs that computed", neighbours or "none"),
        ("Memory available", _size(around.available_bytes)),
        ("Memory", _size(around.memory_bytes)),
        ("Disk free", free or "unknown"),
        ("Watched by", ", ".join(around.profilers) or "nothing"),
        ("Candidates compiled at once", f"{conditions.lanes.count} ({conditions.lanes.bound})"),
    ]


def _size(size: int | None) -> str:
    return "unknown" if size is None else size_text(size)


SHOWN_ELSEWHERE = {"JM501"}
"""Findings whose numbers are rows of a table."""
MAX_ACTIONS = 3


def tuning_page(run: TuneResult) -> Page:
    """Return what a run found, how it was found, and on what."""
    findings = [finding for finding in run.findings if finding.code not in SHOWN_ELSEWHERE]
    found = Section(title="Findings", blocks=[finding_list(findings)]) if findings else None
    sections = [
        graphs(run.graphs),
        precisions(run.precisions),
        operators(run.tasks),
        found,
        progress(run.history, run.wall_s),
        tried(run.tasks, run.graphs, run.min_gain),
        not_tuned(run),
        machine(run),
    ]
    actions = [
        Action(title=finding.action, detail=str(finding.where), command=f"jumar rule {finding.code}")
        for finding in sorted(findings, key=lambda finding: -finding.severity)
        if finding.action
    ]
    return Page(
        title="Tuning",
        verdict=verdict(run),
        actions=actions[:MAX_ACTIONS],
        sections=[section for section in sections if section is not None],
    )
