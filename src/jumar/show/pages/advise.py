"""The page of `jumar advise`: the greatest bottleneck in a sentence, what to do, then the evidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from jumar.advise.bottlenecks import Advice, OperatorSummary
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import (
    Action,
    Block,
    Column,
    KeyValues,
    LineChart,
    Page,
    Section,
    Series,
    Status,
    Table,
    Text,
    Verdict,
)
from jumar.show.pages.profile.parts import rank_bars, step_bars

MAX_ACTIONS = 4
MAX_OPERATORS = 200

ABOUT_TIMES = (
    "Times are host times of the recorded run, a guide to where the host spends time; where the NPU was emulated "
    "they are times of CPU kernels and not of an NPU. Bytes and FLOPs come from the shapes. The order of the "
    "bottlenecks is an estimate for the SoC from bytes, launches, waits and compiles (`jumar advise` guide)."
)


ABOUT_PROFILES = (
    "Times are those of the profile, with the profiler's own cost in them. A finding's greatest saving is the time of "
    "the judged steps (all but the first) in which its events ran; together they never save more than the step."
)


def advise_page(advice: Advice, others: Sequence[Advice] = (), pictures: Sequence[Section] = ()) -> Page:
    """Return the page for `advice`, with a table of `others`, the other ranks, and `pictures` of its timeline.

    Sections without content are left out, what was not checked never is.
    """
    bottlenecks, notes = _split(advice.findings)
    sections = [
        _bottlenecks(bottlenecks),
        _not_checked(advice),
        _parts(advice),
        *pictures,
        _ranks([advice, *others]),
        _operators(advice),
        _steps(advice),
        _notes(notes),
        _about(advice),
    ]
    return Page(
        title=f"Bottlenecks of {advice.recording}",
        verdict=_verdict(advice, bottlenecks, notes),
        actions=_actions(bottlenecks),
        sections=[section for section in sections if section is not None],
        footer=ABOUT_PROFILES if advice.parts else ABOUT_TIMES,
    )


def _split(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    bottlenecks = [finding for finding in findings if finding.severity > Severity.INFO]
    return bottlenecks, [finding for finding in findings if finding.severity <= Severity.INFO]


def _verdict(advice: Advice, bottlenecks: Sequence[Finding], notes: Sequence[Finding]) -> Verdict:
    rules, gaps = counted(len(advice.checked), "rule"), _num_gaps(advice)
    details = [
        f"Looked at {counted(advice.num_steps, 'step')} of rank {advice.rank}, run on "
        f"{advice.device or 'no named device'}{f', for {advice.soc}' if advice.soc else ''}: {rules} ran"
        + (f", {counted(gaps, 'rule')} could not be checked or not fully (see Not checked)." if gaps else "."),
        *(f"{'Profile' if advice.parts else 'Recording'}: {line.removesuffix('.')}." for line in advice.warnings),
    ]
    if not advice.checked:
        reason = advice.not_checked[0].reason if advice.not_checked else "no rule ran."
        return Verdict(status="failed", headline=f"Nothing could be checked: {reason}", details=details)
    if bottlenecks:
        return Verdict(status="attention", headline=bottlenecks[0].message, details=details)
    but = f"; {counted(gaps, 'rule')} could not be checked or not fully" if gaps else ""
    lesser = f"; {counted(len(notes), 'lesser thing')} noted" if notes else ""
    status: Status = "attention" if gaps > len(advice.checked) else "fine"
    return Verdict(
        status=status, headline=f"No bottleneck found by the {rules} that ran{but}{lesser}.", details=details
    )


def _num_gaps(advice: Advice) -> int:
    return len({item.code for item in advice.not_checked if item.code})


def _actions(bottlenecks: Sequence[Finding]) -> list[Action]:
    """Return the first thing to do of each rule, in the order of the findings."""
    firsts: dict[str, Finding] = {}
    for finding in bottlenecks:
        firsts.setdefault(finding.code, finding)
    chosen = list(firsts.values())[:MAX_ACTIONS]
    return [
        Action(title=finding.action, detail=str(finding.where), command=f"jumar rule {finding.code}")
        for finding in chosen
    ]


def _bottlenecks(found: Sequence[Finding]) -> Section:
    return Section(title="Bottlenecks", blocks=[finding_list(found, empty="None found.")])


def _notes(found: Sequence[Finding]) -> Section | None:
    if not found:
        return None
    return Section(title="Lesser things", blocks=[finding_list(found)], collapsed=True)


def _not_checked(advice: Advice) -> Section | None:
    if not advice.not_checked:
        return None
    columns = [Column(title="rule", code=True), Column(title="why not")]
    rows = [[f"{item.code} {item.name}".strip(), item.reason] for item in advice.not_checked]
    return Section(title="Not checked", blocks=[Table(columns=columns, rows=rows)])


def _parts(advice: Advice) -> Section | None:
    """Return where the time of a step goes, of a profile: medians over the steps after the first."""
    steps = advice.steps[1:] or advice.steps
    if not advice.parts or not steps:
        return None
    columns = [
        Column(title="part"),
        Column(title="median", unit="ms", number=True, bar=True),
        Column(title="least", unit="ms", number=True),
        Column(title="greatest", unit="ms", number=True),
        Column(title="first step", unit="ms", number=True),
        Column(title="what it is"),
    ]
    rows: list[list[str | float | None]] = []
    for part, words in advice.parts.items():
        times = [step.phase_us[part] / 1000 for step in steps]
        first = advice.steps[0].phase_us[part] / 1000
        if any(times) or first:
            rows.append(
                [part, *(round(one, 3) for one in (statistics.median(times), min(times), max(times), first)), words]
            )
    rows.sort(key=lambda row: -float(row[1] or 0))
    text = "Each moment of a step belongs to one part. Medians are over the steps after the first."
    bars = step_bars(advice)
    table = Table(columns=columns, rows=rows)
    return Section(title="Where a step's time goes", blocks=[table, Text(text=text), *([bars] if bars else [])])


def _ranks(all_ranks: Sequence[Advice]) -> Section | None:
    if len(all_ranks) < 2:
        return None
    columns = [
        Column(title="rank", number=True),
        Column(title="median step", unit="ms", number=True, bar=True),
        Column(title="steps", number=True),
        Column(title="first bottleneck"),
    ]
    rows: list[list[str | float | None]] = []
    for one in all_ranks:
        spans = [step.span_us / 1000 for step in one.steps]
        first = next((finding for finding in one.findings if finding.severity > Severity.INFO), None)
        told = f"{first.code} {first.message}" if first is not None else ""
        rows.append([one.rank, round(statistics.median(spans), 2) if spans else None, one.num_steps, told])
    bars = rank_bars(all_ranks)
    return Section(title="Ranks", blocks=[Table(columns=columns, rows=rows), *([bars] if bars else [])])


def _operators(advice: Advice) -> Section | None:
    launched = [operator for operator in advice.operators if not operator.is_view]
    if not launched:
        return None
    if advice.parts:
        return _own_times(launched)
    columns = [
        Column(title="operator", code=True),
        Column(title=f"on {advice.soc}"),
        Column(title="calls", unit="a step", number=True),
        Column(title="host time", unit="%", number=True, bar=True),
        Column(title="bytes", unit="MiB a step", number=True, bar=True),
        Column(title="FLOPs", unit="M a step", number=True, bar=True),
        Column(title="dtypes"),
    ]
    shown = launched[:MAX_OPERATORS]
    marked = [row for row, operator in enumerate(shown) if operator.support in {"fallback", "unsupported"}]
    table = Table(columns=columns, rows=[_operator_cells(operator) for operator in shown], marked=marked)
    title = "Operators" if len(shown) == len(launched) else f"Operators ({len(shown)} of {len(launched)})"
    return Section(title=title, blocks=[table])


def _own_times(operators: Sequence[OperatorSummary]) -> Section:
    """Return the operators and kernels of a profile."""
    columns = [
        Column(title="name", code=True),
        Column(title="side"),
        Column(title="calls", unit="a step", number=True),
        Column(title="own time", unit="ms a step", number=True, bar=True),
        Column(title="share", unit="%", number=True),
    ]
    rows: list[list[str | float | None]] = [
        [
            one.name,
            ", ".join(one.phases),
            round(one.calls_per_step, 2),
            round(one.host_time_us_per_step / 1000, 3),
            round(100 * one.host_time_share, 1),
        ]
        for one in operators[:MAX_OPERATORS]
    ]
    number = "" if len(rows) == len(operators) else f" ({len(rows)} of {len(operators)})"
    return Section(title=f"Operators{number}", blocks=[Table(columns=columns, rows=rows)])


def _operator_cells(operator: OperatorSummary) -> list[str | float | None]:
    flops = operator.flops_per_step
    return [
        operator.name,
        operator.support,
        round(operator.calls_per_step, 2),
        round(100 * operator.host_time_share, 1),
        None if operator.bytes_per_step is None else round(operator.bytes_per_step / 2**20, 3),
        None if flops is None else round(flops / 1e6, 3),
        ", ".join(operator.dtypes),
    ]


def _steps(advice: Advice) -> Section | None:
    if not advice.steps:
        return None
    phases = list(dict.fromkeys(phase for step in advice.steps for phase in step.phase_us))
    columns = [
        Column(title="step", number=True),
        *([] if advice.parts else [Column(title="before the model", unit="ms", number=True)]),
        *(Column(title=phase, unit="ms", number=True) for phase in phases),
        Column(title="operators", number=True),
        *([] if advice.parts else [Column(title="moved", unit="MiB", number=True)]),
        *([] if advice.parts else [Column(title="products", unit="GFLOP", number=True)]),
    ]
    rows = [
        [
            step.step,
            *([] if step.wait_us is None else [round(step.wait_us / 1000, 2)]),
            *(round(step.phase_us.get(phase, 0.0) / 1000, 2) for phase in phases),
            step.num_operators,
            *([] if step.bytes_moved is None else [round(step.bytes_moved / 2**20, 2)]),
            *([] if step.flops is None else [round(step.flops / 1e9, 3)]),
        ]
        for step in advice.steps
    ]
    numbers = [step.step for step in advice.steps]
    lines = [
        Series(name=phase, x=numbers, y=[step.phase_us.get(phase, 0.0) / 1000 for step in advice.steps])
        for phase in phases
    ]
    title = "The parts of each step" if advice.parts else "Host time of the operators by phase"
    chart = LineChart(title=title, x_label="step", y_label="ms", series=lines)
    blocks: list[Block] = [Table(columns=columns, rows=rows, title=title)]
    drawn = len(numbers) > 2 and not advice.parts  # a profile's parts are stacked bars already
    return Section(title="Steps", blocks=[chart, *blocks] if drawn else blocks, collapsed=True)


def _about(advice: Advice) -> Section:
    items: list[tuple[str, Cell]] = [
        ("recording", advice.recording),
        ("run on", advice.device),
        ("advice for", advice.soc),
        ("rank", advice.rank),
        ("steps", advice.num_steps),
        ("rules that ran", ", ".join(advice.checked)),
    ]
    about = ABOUT_PROFILES if advice.parts else ABOUT_TIMES
    return Section(title="How it was found", blocks=[KeyValues(items=items), Text(text=about)], collapsed=True)
