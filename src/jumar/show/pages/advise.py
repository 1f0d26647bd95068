"""The page of `jumar advise`: the greatest bottleneck in a sentence, what to do, then the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.bottlenecks import Advice, OperatorSummary
from jumar.base.findings import Finding, Severity
from jumar.base.rules import rules_of
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

MAX_ACTIONS = 4
MAX_OPERATORS = 200

ABOUT_TIMES = (
    "Times are host times of the recorded run, a guide to where the host spends time; where the NPU was emulated "
    "they are times of CPU kernels and not of an NPU. Bytes and FLOPs come from the shapes. The order of the "
    "bottlenecks is an estimate for the SoC from bytes, launches, waits and compiles (`jumar advise` guide)."
)


def advise_page(advice: Advice) -> Page:
    """Return the page for `advice`; sections without content are left out, what was not checked never is."""
    bottlenecks, notes = _split(advice.findings)
    sections = [
        _bottlenecks(bottlenecks),
        _not_checked(advice),
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
        footer=ABOUT_TIMES,
    )


def _split(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    bottlenecks = [finding for finding in findings if finding.severity > Severity.INFO]
    return bottlenecks, [finding for finding in findings if finding.severity <= Severity.INFO]


def _verdict(advice: Advice, bottlenecks: Sequence[Finding], notes: Sequence[Finding]) -> Verdict:
    rules, gaps = counted(len(advice.checked), "rule"), _num_gaps(advice)
    details = [
        f"Looked at {counted(advice.num_steps, 'step')} of rank {advice.rank}, run on "
        f"{advice.device or 'no named device'}, for {advice.soc}: {rules} ran"
        + (f", {counted(gaps, 'rule')} could not be checked or not fully (see Not checked)." if gaps else "."),
        *(f"Recording: {line}." for line in advice.warnings),
    ]
    if not advice.checked:
        reason = advice.not_checked[0].reason if advice.not_checked else "no rule ran."
        return Verdict(status="failed", headline=f"Nothing could be checked: {reason}", details=details)
    if bottlenecks:
        return Verdict(status="attention", headline=bottlenecks[0].message, details=details)
    but = f"; {counted(gaps, 'rule')} could not be checked or not fully" if gaps else ""
    lesser = f"; {counted(len(notes), 'lesser thing')} noted" if notes else ""
    status: Status = "attention" if gaps > len(rules_of("advise.bottlenecks")) // 2 else "fine"
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


def _operators(advice: Advice) -> Section | None:
    launched = [operator for operator in advice.operators if not operator.is_view]
    if not launched:
        return None
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


def _operator_cells(operator: OperatorSummary) -> list[str | float | None]:
    flops = operator.flops_per_step
    return [
        operator.name,
        operator.support,
        round(operator.calls_per_step, 2),
        round(100 * operator.host_time_share, 1),
        round(operator.bytes_per_step / 2**20, 3),
        None if flops is None else round(flops / 1e6, 3),
        ", ".join(operator.dtypes),
    ]


def _steps(advice: Advice) -> Section | None:
    if not advice.steps:
        return None
    phases = list(dict.fromkeys(phase for step in advice.steps for phase in step.phase_us))
    columns = [
        Column(title="step", number=True),
        Column(title="before the model", unit="ms", number=True),
        *(Column(title=phase, unit="ms", number=True) for phase in phases),
        Column(title="operators", number=True),
        Column(title="moved", unit="MiB", number=True),
        Column(title="products", unit="GFLOP", number=True),
    ]
    rows = [
        [
            step.step,
            round(step.wait_us / 1000, 2),
            *(round(step.phase_us.get(phase, 0.0) / 1000, 2) for phase in phases),
            step.num_operators,
            round(step.bytes_moved / 2**20, 2),
            round(step.flops / 1e9, 3),
        ]
        for step in advice.steps
    ]
    numbers = [step.step for step in advice.steps]
    lines = [
        Series(name=phase, x=numbers, y=[step.phase_us.get(phase, 0.0) / 1000 for step in advice.steps])
        for phase in phases
    ]
    chart = LineChart(title="Host time of the operators by phase", x_label="step", y_label="ms", series=lines)
    blocks: list[Block] = [Table(columns=columns, rows=rows, title="Host time of the recorded run by phase")]
    return Section(title="Steps", blocks=[chart, *blocks] if len(numbers) > 2 else blocks, collapsed=True)


def _about(advice: Advice) -> Section:
    items: list[tuple[str, Cell]] = [
        ("recording", advice.recording),
        ("run on", advice.device),
        ("advice for", advice.soc),
        ("rank", advice.rank),
        ("steps", advice.num_steps),
        ("rules that ran", ", ".join(advice.checked)),
    ]
    return Section(title="How it was found", blocks=[KeyValues(items=items), Text(text=ABOUT_TIMES)], collapsed=True)
