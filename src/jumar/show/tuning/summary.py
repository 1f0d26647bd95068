"""What `jumar tune` says on the terminal: the answer first, then the policies with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Column, KeyValues, Page, Section, Table, Verdict
from jumar.show.tuning.graphs import graph_sections, graph_verdict, precision_sections

if TYPE_CHECKING:
    from jumar.tune import TuneResult


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
    attention = bool(result.failed()) or bool(result.stopped_by)
    return Verdict(status="attention" if attention else "fine", headline=headline, details=details)


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
