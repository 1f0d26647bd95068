"""The page of a report of MindSpore's dataset autotune: what it suggests, what was timed, what was not."""

from __future__ import annotations

import statistics

from jumar.advise.datasets.settings import DatasetAdvice
from jumar.base.findings import Severity
from jumar.base.text import counted
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Column, Page, Section, Status, Table, Verdict


def datasets_page(advice: DatasetAdvice) -> Page:
    """Return the page of a report."""
    actions = [
        Action(title=one.action, detail=one.message, command=f"jumar rule {one.code}") for one in advice.findings
    ]
    sections = [_settings(advice), _measured(advice), _not_checked(advice)]
    if advice.findings:
        sections.insert(0, Section(title="Findings", blocks=[finding_list(advice.findings)]))
    return Page(
        title=f"Settings of the pipeline in {advice.pipeline.path}",
        verdict=_verdict(advice),
        actions=actions,
        sections=[section for section in sections if section is not None],
    )


def _verdict(advice: DatasetAdvice) -> Verdict:
    stages = counted(len(advice.pipeline.stages), "operator")
    details = [f"Read {stages} of the pipeline; {_timed(advice)}."]
    if advice.findings:
        worst = max(one.severity for one in advice.findings)
        status: Status = "attention" if worst > Severity.INFO else "fine"
        return Verdict(status=status, headline=advice.findings[0].message, details=details)
    said = "Autotune changed no setting: it says that the pipeline is not the bottleneck"
    headline = said if advice.pipeline.is_report else "The file is a pipeline and no report of autotune"
    return Verdict(status="attention", headline=f"{headline}. Nothing was timed here.", details=details)


def _timed(advice: DatasetAdvice) -> str:
    if advice.measured is None:
        return "nothing was timed"
    whole = "whole epochs" if advice.measured.is_whole else "epochs that were cut short"
    return f"timed in {len(advice.measured.ratios)} rounds of {whole}, in turn"


def _settings(advice: DatasetAdvice) -> Section:
    before = advice.before.stages if advice.before else ()
    same = [one.name for one in before] == [one.name for one in advice.pipeline.stages]
    columns = [Column(title="operator"), Column(title="num_parallel_workers", number=True),
               Column(title="prefetch_size", number=True)]  # fmt: skip
    if same:
        columns += [Column(title="workers before", number=True), Column(title="prefetch before", number=True)]
    rows: list[list[str | float | None]] = []
    for place, stage in enumerate(advice.pipeline.stages):
        old = [before[place].num_parallel_workers, before[place].prefetch_size] if same else []
        rows.append([stage.name, stage.num_parallel_workers, stage.prefetch_size, *old])
    return Section(title="Settings", blocks=[Table(columns=columns, rows=rows)])


def _measured(advice: DatasetAdvice) -> Section | None:
    measured = advice.measured
    if measured is None:
        return None
    columns = [Column(title="settings"), Column(title="median", unit="ms a batch", number=True)]
    columns += [Column(title=title, unit="ms", number=True) for title in ("least", "greatest")]
    named = ((measured.before, measured.before_ms), (str(advice.pipeline.path), measured.after_ms))
    rows: list[list[str | float | None]] = [
        [name, *(round(one, 3) for one in (statistics.median(times), min(times), max(times)))] for name, times in named
    ]
    return Section(title="Timed on this machine", blocks=[Table(columns=columns, rows=rows)])


def _not_checked(advice: DatasetAdvice) -> Section | None:
    if not advice.not_checked:
        return None
    rows: list[list[str | float | None]] = [[f"{one.code} {one.name}", one.reason] for one in advice.not_checked]
    return Section(
        title="Not checked",
        blocks=[Table(columns=[Column(title="rule", code=True), Column(title="why not")], rows=rows)],
    )
