"""What `jumar doctor` prints: the answer, what to do, the evidence, and what could not be seen."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.doctor import Examination, Incident, LogDiagnosis
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.show.blocks.findings import finding_list, status_of
from jumar.show.blocks.page import Action, Column, KeyValues, Page, Section, Table, Text, Verdict

_MOST_ACTIONS = 3


def environment_page(examination: Examination) -> Page:
    """Return the page of an examined environment."""
    serious = [finding for finding in examination.findings if finding.severity >= Severity.WARNING]
    num_skipped = len(examination.not_checked)
    details = [f"{counted(examination.num_checked, 'check')} made, {num_skipped} could not be made here."]
    sections = [
        Section(title="Findings", blocks=[finding_list(examination.findings, empty="Nothing to mend.")]),
        Section(title="This machine", blocks=[KeyValues(items=examination.facts)]),
    ]
    if examination.not_checked:
        columns = [Column(title="Code", code=True), Column(title="Check"), Column(title="Why it could not be made")]
        rows = [(item.code, item.name, item.reason) for item in examination.not_checked]
        sections.append(Section(title="Not checked", blocks=[Table(columns=columns, rows=rows)]))
    return Page(
        title="Environment",
        verdict=Verdict(status=status_of(examination.findings), headline=examination.device, details=details),
        actions=[_action(finding) for finding in serious[:_MOST_ACTIONS]],
        sections=sections,
    )


def logs_page(diagnosis: LogDiagnosis) -> Page:
    """Return the page of a job's logs: the first error, then the others in the order of time."""
    first = diagnosis.first
    lines = sum(report.num_lines for report in diagnosis.files)
    read = f"{counted(lines, 'line')} of {counted(len(diagnosis.files), 'file')} read."
    sections = []
    if diagnosis.incidents:
        sections.append(Section(title="In the order of time", blocks=[_table(diagnosis.incidents)]))
    if diagnosis.notes:
        sections.append(Section(title="Notes", blocks=[Text(text=" ".join(diagnosis.notes))]))
    return Page(
        title="Logs",
        verdict=_verdict(first, diagnosis, read),
        actions=[_action(item.finding) for item in _worth_acting(diagnosis.incidents)],
        sections=sections,
    )


def _verdict(first: Incident | None, diagnosis: LogDiagnosis, read: str) -> Verdict:
    if first is None and any(finding.severity >= Severity.WARNING for finding in diagnosis.findings):
        return Verdict(status="attention", headline="No error that Jumar knows, but warnings.", details=[read])
    if first is None:
        headline = "No error that Jumar knows, and no traceback; that does not prove that the run was fine."
        return Verdict(status="fine", headline=headline, details=[read])
    finding = first.finding
    when = f", {finding.evidence['time']}" if "time" in finding.evidence else ""
    rank = f", rank {finding.where.rank}" if finding.where.rank is not None else ""
    headline = f"The first error: {finding.message.rstrip('.')} ({finding.where}{rank}{when})."
    return Verdict(
        status="failed", headline=headline, details=[text for text in (_quoted(first), finding.why, read) if text]
    )


def _quoted(first: Incident) -> str:
    return f"It prints: {first.lead.text[:200]}"


def _worth_acting(incidents: Sequence[Incident]) -> list[Incident]:
    """Return the first errors that are not mere consequences; the first of all is always among them."""
    errors = [item for item in incidents if item.severity is Severity.ERROR]
    chosen = errors[:1] + [item for item in errors[1:] if item.role != "consequence"]
    return chosen[:_MOST_ACTIONS]


def _table(incidents: Sequence[Incident]) -> Table:
    columns = [
        Column(title="Time"),
        Column(title="Rank", number=True),
        Column(title="Where", code=True),
        Column(title="Lines", number=True),
        Column(title="What"),
    ]
    rows = [
        (
            str(item.finding.evidence.get("time", ""))[:19],
            item.finding.where.rank,
            str(item.finding.where),
            item.lead.count,
            item.finding.message,
        )
        for item in incidents
    ]
    return Table(columns=columns, rows=rows, marked=[0] if rows else [])


def _action(finding: Finding) -> Action:
    return Action(title=finding.action or finding.message, detail=finding.message if finding.action else "")
