"""What `jumar tune` says on the terminal: the answer, then policies with intervals, plans and precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Column, KeyValues, Page, Section, Status, Table, Verdict
from jumar.tune.model.process import INTERRUPTIONS

if TYPE_CHECKING:
    from jumar.tune import TuneResult
    from jumar.tune.model.gate import Gain
    from jumar.tune.search.precision.outcome import Point, PrecisionOutcome
    from jumar.tune.search.subgraph.outcome import GraphOutcome

_MAX_NOTES = 3


def graph_verdict(result: TuneResult) -> Verdict:
    """Return the answer: before, after, interval, what was chosen, what was tried."""
    counters, num_open = result.counters(), result.num_not_judged()
    details = [
        f"{counted(counters.add, 'plan')} added to the bank, {counters.update} updated, {counters.reserved} kept, "
        f"{counted(counters.unsatisfied - num_open, 'graph')} without a faster plan, {num_open} not judged to the end; "
        f"{counted(result.num_trials, 'candidate')} "
        f"{'estimated' if result.machine.is_estimate else 'measured'} in {result.wall_s:.0f} s.",
    ]
    details += [note for graph in result.graphs for note in graph.notes][:_MAX_NOTES]
    if result.stopped_by:
        details.append(f"Stopped by {result.stopped_by}; the same command goes on from there.")
    has_gain = any(graph.plan is not None and graph.gain is not None for graph in result.graphs)
    status = _status(result, has_gain=has_gain, has_failed=bool(result.failed_graphs()))
    return Verdict(status=status, headline=_headline(result), details=details)


def _status(result: TuneResult, *, has_gain: bool, has_failed: bool) -> Status:
    """Return the status: a run that found something and ended by itself, or with its budget, is fine.

    How busy the machine was is no part of it: a gain counts only where it is beyond the noise.
    """
    cut_short = bool(result.stopped_by) and (result.stopped_by in INTERRUPTIONS or not has_gain)
    return "attention" if has_failed or cut_short else "fine"


def _headline(result: TuneResult) -> str:
    found = [graph for graph in result.graphs if graph.plan is not None and graph.gain is not None]
    if not result.graphs:
        return "No graph was tuned before the run was stopped."
    if len(result.failed_graphs()) == len(result.graphs):
        return f"{result.graphs[0].name} was not tuned: {result.graphs[0].failure.rstrip('.')}."
    if not found and all(graph.is_open for graph in result.graphs):
        what = result.graphs[0].name if len(result.graphs) == 1 else f"{len(result.graphs)} graphs"
        return f"{what} could not be judged in this run: no answer yet; nothing was changed."
    if not found:
        some = result.graphs[0].name if len(result.graphs) == 1 else f"None of {len(result.graphs)} graphs"
        verb = "is not faster" if len(result.graphs) == 1 else "is faster"
        return (
            f"{some} {verb} under any plan that was tried, by {result.min_gain * 100:g} % or more; it stays as it was."
        )
    if len(result.graphs) == 1:
        return f"{found[0].name} is faster under `{found[0].plan}`: {_times(found[0].gain)}."
    times = result.model_us()
    total = "" if times is None else f": {times[0] / 1000:.4g} → {times[1] / 1000:.4g} ms for all together"
    return f"{len(found)} of {len(result.graphs)} graphs have a faster plan{total}."


def _times(gain: Gain | None) -> str:
    assert gain is not None
    return gain.told("ms", 1000.0)


def graph_sections(result: TuneResult) -> list[Section]:
    """Return the plans that were chosen, and what was tried for each graph."""
    if not result.graphs:
        return []
    columns = [
        Column(title="Graph", code=True),
        Column(title="Plan", code=True),
        Column(title="Instead of", code=True),
        Column(title="Before", unit="us", number=True),
        Column(title="After", unit="us", number=True),
        Column(title="Faster", unit="%", number=True),
        Column(title="95 % interval", unit="%"),
        Column(title="Bank"),
    ]
    rows = [_row(graph) for graph in result.graphs]
    chosen = Section(title="Graphs", blocks=[Table(columns=columns, rows=rows)])
    return [chosen, *(_tried(graph) for graph in result.graphs if graph.attempts)]


def _row(graph: GraphOutcome) -> list[Cell]:
    baseline = graph.instead_of
    gain = graph.gain
    if graph.plan is None or gain is None:
        times = graph.times_us()
        before = None if times is None else times[0]
        return [
            graph.name,
            "as it was",
            baseline,
            before,
            before,
            None,
            "",
            "failed" if graph.failure else graph.action,
        ]
    numbers: list[Cell] = [gain.before_us, gain.after_us, (gain.ratio - 1) * 100, gain.interval]
    return [graph.name, str(graph.plan), baseline, *numbers, graph.action]


def _tried(graph: GraphOutcome) -> Section:
    """Return every measurement of a graph, the fastest against eager first."""
    columns = [
        Column(title="Plan", code=True),
        Column(title="Against", code=True),
        Column(title="Stage"),
        Column(title="Times faster", number=True),
        Column(title="What became of it"),
    ]
    rows: list[list[Cell]] = []
    for one in sorted(
        graph.attempts, key=lambda one: one.outcome.gain.ratio if one.outcome.gain else 0.0, reverse=True
    ):
        gain = one.outcome.gain
        status = "" if one.is_left_out else f"{one.outcome.status}: "
        told = str(gain) if gain is not None else f"{status}{one.outcome.detail}"
        against = "eager" if one.against is None else str(one.against)
        rows.append([str(one.plan), against, one.stage, None if gain is None else gain.ratio, told])
    return Section(title=f"Tried for {graph.name}", blocks=[Table(columns=columns, rows=rows)], collapsed=True)


def precision_sections(result: TuneResult) -> list[Section]:
    """Return, for each graph whose precision was searched, its measured points of latency and error."""
    return [Section(title=f"Precision of {one.name}", blocks=_blocks(one)) for one in result.precisions if one.points]


def _blocks(one: PrecisionOutcome) -> list[Any]:
    front = one.front()
    columns = [
        Column(title="Point", code=True),
        Column(title=""),
        Column(title="Error", number=True),
        Column(title="Time", unit="us", number=True),
        Column(title="Times as fast", number=True),
        Column(title="95 % interval"),
        Column(title="Pairs", number=True),
    ]
    rows = [_point_row(point, one, front) for point in sorted(one.points, key=lambda point: point.gain.ratio)]
    facts: list[tuple[str, Cell]] = [("Budget", f"{one.budget:g} by {one.metric or 'the greatest output error'}")]
    facts += [("File", str(path)) for path in one.files]
    facts += [("Note", note) for note in one.notes]
    if one.stopped_by:
        facts.append(("Stopped by", one.stopped_by))
    return [Table(columns=columns, rows=rows), KeyValues(items=facts)]


def _point_row(point: Point, one: PrecisionOutcome, front: list[Point]) -> list[Cell]:
    gain = point.gain
    interval = "" if point.is_reference else f"{gain.ratio_low:.2f} to {gain.ratio_high:.2f}"
    name = point.name if point.plan.regions else "eager"
    return [name, _standing(point, one, front), point.error, point.time_us, gain.ratio, interval, gain.num_pairs]


def _standing(point: Point, one: PrecisionOutcome, front: list[Point]) -> str:
    if point is one.chosen:
        return "chosen"
    words = "reference" if point.is_reference else "" if any(point is other for other in front) else "beaten"
    over = "" if point.fits(one.budget) else "over budget"
    return ", ".join(filter(None, (words, over)))


def tune_page(result: TuneResult) -> Page:
    """Return what a run found as a page: the answer, the policies with their intervals, what went wrong."""
    others = [finding for finding in result.findings if finding.code not in {"JM501", "JM520"}]
    sections = [Section(title="Policies", blocks=[_policies(result)])] if _rows(result) else []
    sections += graph_sections(result)
    sections += precision_sections(result)
    if others:
        sections.append(Section(title="Findings", blocks=[finding_list(others)]))
    left_out = not_tuned(result)
    sections += [] if left_out is None else [left_out]
    facts: list[tuple[str, Cell]] = [
        ("Estimated for" if result.machine.is_estimate else "Measured on", str(result.machine)),
        ("Source", result.recording if result.is_offline else f"{result.recording} ({result.recorded_device})"),
        ("Load of the machine at the start", result.load_average),
        ("Providers", ", ".join(result.providers)),
        *((f"Left out: {engine}", why) for graph in result.graphs[:1] for engine, why in graph.left_out.items()),
        ("Bank", result.bank),
        ("Result file", str(result.result_file)),
        *(("Note", note) for note in result.notes),
    ]
    sections.append(Section(title="How it was made", blocks=[KeyValues(items=facts)]))
    return Page(title="Tuning", verdict=verdict(result), actions=[], sections=sections)


def verdict(result: TuneResult) -> Verdict:
    """Return the answer of a run: before and after, what was chosen, what was tried."""
    if result.job_type == 1:
        return graph_verdict(result)

    counters, num_open = result.counters(), result.num_not_judged()
    num_faster = len({row[0] for row in _rows(result)})
    num_done = sum(1 for task in result.tasks if task.slots or task.failure)
    of_all = f"{result.num_tasks} operators" if not result.stopped_by else f"{num_done} operators tuned so far"
    if not result.num_tasks:
        what = "model" if result.is_offline else "recording"
        headline = f"The {what} has no operator that can be tuned."
    elif not num_done:
        headline = f"None of {result.num_tasks} operators was tuned before the run was stopped."
    elif num_faster:
        have = "has" if num_faster == 1 else "have"
        where = _where(result)
        headline = f"{num_faster} of {of_all} {have} a policy that is faster {where}."
    elif num_open and num_open == counters.total:
        headline = f"No policy of {of_all} could be judged in this run: no answer yet; nothing was changed."
    else:
        left = f"; {num_open} could not be judged" if num_open else ""
        headline = f"None of {of_all} has a policy that is faster by {result.min_gain * 100:g} % or more{left}."
    details = [
        f"{counters.add} added to the bank, {counters.update} updated, {counters.reserved} kept, "
        f"{counters.unsatisfied - num_open} without a faster policy, {num_open} not judged; "
        f"{counted(result.num_trials, 'candidate')} {'estimated' if result.machine.is_estimate else 'measured'} in "
        f"{result.wall_s:.0f} s.",
    ]
    if result.machine.is_estimate:
        details.append("Times are estimates of an analytic model, not measurements; outputs were compared.")
    elif result.is_of_another_device:
        details.append(
            f"The recording is of {result.recorded_device}: what was measured on this {result.machine.device} says "
            "nothing about that device."
        )
    if result.stopped_by:
        details.append(
            f"Stopped by {result.stopped_by} after {num_done} of {result.num_tasks} operators; "
            "the same command goes on from there."
        )
    status = _status(result, has_gain=bool(num_faster), has_failed=bool(result.failed()))
    return Verdict(status=status, headline=headline, details=details)


def _where(result: TuneResult) -> str:
    if result.machine.is_estimate:
        return f"on {result.machine.model}, by estimate"
    return f"on this {result.machine.device}"


def _rows(result: TuneResult) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for task in result.tasks:
        for slot in task.slots:
            if slot.policy is None or slot.gain is None:
                continue
            gain = slot.gain
            times: list[Cell] = [gain.before_us, gain.after_us, (gain.ratio - 1) * 100]
            numbers: list[Cell] = [*times, gain.interval, None if gain.is_estimate else gain.num_pairs]
            rows.append([task.use.name, f"{slot.kind} {slot.policy}", *numbers, slot.action])
    return rows


def _policies(result: TuneResult) -> Table:
    columns = [
        Column(title="Operator", code=True),
        Column(title="Policy", code=True),
        Column(title="Before", unit="us", number=True),
        Column(title="After", unit="us", number=True),
        Column(title="Faster", unit="%", number=True),
        Column(title="95 % interval", unit="%"),
        Column(title="Pairs", number=True),
        Column(title="Bank"),
    ]
    return Table(columns=columns, rows=_rows(result))


def not_tuned(result: TuneResult) -> Section | None:
    """Return what was left out and why; None when nothing was: a graph is tuned whole, with all its operators."""
    if result.graphs or not result.not_tuned:
        return None
    columns = [
        Column(title="Operator", code=True),
        Column(title="Calls", number=True),
        Column(title="Host time", unit="us", number=True),
        Column(title="Why"),
    ]
    rows: list[list[Cell]] = [[one.operator, one.num_calls, one.recorded_us, one.reason] for one in result.not_tuned]
    return Section(title="Not tuned", blocks=[Table(columns=columns, rows=rows)], collapsed=True)
