"""What `jumar doctor` prints: the answer, what to do, the evidence, and what could not be seen."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.doctor import Incident, LogDiagnosis
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.show.blocks.page import Action, Column, Listing, Page, Section, Table, Text, Verdict
from jumar.show.pages.doctor.ranks import rank_sections, told_ranks

_MOST_ACTIONS = 3


def logs_page(diagnosis: LogDiagnosis) -> Page:
    """Return the page of a job's logs: the first error, then the others in the order of time."""
    first = diagnosis.first
    lines = sum(report.num_lines for report in diagnosis.files)
    read = f"{counted(lines, 'line')} of {counted(len(diagnosis.files), 'file')} read."
    sections = []
    if first is not None and "around" in first.finding.evidence:
        sections.append(Section(title="The lines around it", blocks=[Listing(text="\n".join(first.lead.around))]))
    if diagnosis.ranks is not None and diagnosis.incidents:
        sections += rank_sections(diagnosis.ranks)
        read = f"{read} {told_ranks(diagnosis.ranks)}"
    elif diagnosis.incidents:
        sections.append(Section(title="In the order of time", blocks=[_table(diagnosis.incidents, first)]))
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
        return _nothing_found(diagnosis, read)
    finding = first.finding
    when = f", {finding.evidence['time']}" if "time" in finding.evidence else ""
    rank = f", rank {finding.where.rank}" if finding.where.rank is not None else ""
    headline = f"The first error: {finding.message.rstrip('.')} ({finding.where}{rank}{when})."
    details = [text for text in (_quoted(first), _named(finding), finding.why, read) if text]
    return Verdict(status="failed", headline=headline, details=details)


def _nothing_found(diagnosis: LogDiagnosis, read: str) -> Verdict:
    """Return the verdict where no error stands in what was read: that proves nothing, less so where some was not."""
    if all(report.num_lines == 0 for report in diagnosis.files):
        return Verdict(status="attention", headline="Nothing to read: the logs hold no line.", details=[read])
    if any(report.notes for report in diagnosis.files):
        headline = "No error in what was read; not all could be read (see the notes)."
        return Verdict(status="attention", headline=headline, details=[read])
    headline = "No error that Jumar knows, and no traceback; that does not prove that the run was fine."
    return Verdict(status="fine", headline=headline, details=[read])


def _quoted(first: Incident) -> str:
    return f"It prints: {first.lead.text[:200]}"


def _named(finding: Finding) -> str:
    """Return what the error's lines name: who printed it, the device, the operator; empty where they name nothing."""
    names = {"writer": "printed by", "ranks": "on ranks", "device": "device", "operator": "operator"}
    said = [f"{name} {finding.evidence[key]}" for key, name in names.items() if key in finding.evidence]
    return f"It names: {', '.join(said)}." if said else ""


def _worth_acting(incidents: Sequence[Incident]) -> list[Incident]:
    """Return the first errors that are not mere consequences; the first of all is always among them."""
    errors = [item for item in incidents if item.severity is Severity.ERROR]
    chosen = errors[:1] + [item for item in errors[1:] if item.role != "consequence"]
    return chosen[:_MOST_ACTIONS]


def _table(incidents: Sequence[Incident], first: Incident | None) -> Table:
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
    marked = [index for index, item in enumerate(incidents) if item is first]
    return Table(columns=columns, rows=rows, marked=marked)


def _action(finding: Finding) -> Action:
    return Action(title=finding.action or finding.message, detail=finding.message if finding.action else "")
