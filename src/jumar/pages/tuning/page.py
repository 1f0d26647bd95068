"""The whole page, section by section."""

from __future__ import annotations

from jumar.pages.tuning.machine import machine, not_tuned
from jumar.pages.tuning.progress import progress
from jumar.pages.tuning.results import graphs, operators, precisions
from jumar.pages.tuning.run import TuningRun
from jumar.pages.tuning.tried import tried
from jumar.report.page import Action, FindingList, Page, Section
from jumar.tune.rules import RULES

SHOWN_ELSEWHERE = {"JM501"}
"""Findings whose numbers are rows of a table."""
MAX_ACTIONS = 3


def tuning_page(run: TuningRun) -> Page:
    """Return what a run found, how it was found, and on what."""
    findings = [finding for finding in run.findings if finding.code not in SHOWN_ELSEWHERE]
    titles = {rule.code: rule.summary for rule in RULES}
    found = Section(title="Findings", blocks=[FindingList(findings=findings, titles=titles)]) if findings else None
    sections = [
        graphs(run.graphs),
        precisions(run.precisions),
        operators(run.operators),
        found,
        progress(run.history, run.wall_s),
        tried(run.operators, run.graphs, run.min_gain),
        None if run.graphs else not_tuned(run),  # a graph is tuned whole, with all its operators
        machine(run),
    ]
    actions = [
        Action(title=finding.action, detail=str(finding.where), command=f"jumar rule {finding.code}")
        for finding in sorted(findings, key=lambda finding: -finding.severity)
        if finding.action
    ]
    return Page(
        title="Tuning",
        verdict=run.verdict,
        actions=actions[:MAX_ACTIONS],
        sections=[section for section in sections if section is not None],
    )
