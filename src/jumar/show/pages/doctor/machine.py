"""What `jumar doctor` prints about a machine or a rank table: what is wrong, what is known, what could not be seen."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.doctor import Examination
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.show.blocks.findings import finding_list, status_of
from jumar.show.blocks.page import Action, Column, KeyValues, Page, Section, Table, Text, Verdict
from jumar.show.pages.doctor.variables import variables_section

_MOST_ACTIONS = 3


def environment_page(examination: Examination) -> Page:
    """Return the page of an examined environment."""
    num_skipped = len(examination.not_checked)
    details = [f"{counted(examination.num_checked, 'check')} made, {num_skipped} could not be made here."]
    sections = [
        Section(title="Findings", blocks=[finding_list(examination.findings, empty="Nothing to mend.")]),
        Section(title="This machine", blocks=[KeyValues(items=examination.facts)]),
    ]
    if examination.variables:
        sections.append(variables_section(examination.variables))
    if examination.not_checked:
        columns = [Column(title="Code", code=True), Column(title="Check"), Column(title="Why it could not be made")]
        rows = [(item.code, item.name, item.reason) for item in examination.not_checked]
        sections.append(Section(title="Not checked", blocks=[Table(columns=columns, rows=rows)]))
    return Page(
        title="Environment",
        verdict=Verdict(status=status_of(examination.findings), headline=examination.device, details=details),
        actions=_actions(examination.findings),
        sections=sections,
    )


def rank_tables_page(paths: Sequence[str], findings: Sequence[Finding]) -> Page:
    """Return the page of rank tables that were checked."""
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    what = counted(len(paths), "rank table")
    headline = f"{what} checked: {counted(errors, 'rule')} broken." if errors else f"{what} checked: no rule is broken."
    details = ["Whether the addresses answer was not tried: hccn_tool -i N -ping -g address ADDRESS does."]
    return Page(
        title="Rank table",
        verdict=Verdict(status=status_of(findings), headline=headline, details=details),
        actions=_actions(findings),
        sections=[Section(title="Broken rules", blocks=[_rules_table(findings) if findings else Text(text="None.")])],
    )


def _rules_table(findings: Sequence[Finding]) -> Table:
    columns = [Column(title="File", code=True), Column(title="Severity"), Column(title="What"), Column(title="To do")]
    rows = [(str(one.where.path), one.severity.label, one.message, one.action) for one in findings]
    return Table(columns=columns, rows=rows)


def _actions(findings: Sequence[Finding]) -> list[Action]:
    serious = [finding for finding in findings if finding.severity >= Severity.WARNING]
    return [
        Action(title=finding.action or finding.message, detail=finding.message if finding.action else "")
        for finding in serious[:_MOST_ACTIONS]
    ]
