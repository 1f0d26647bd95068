"""The whole page of a tuning run, section by section."""

from __future__ import annotations

from jumar.base.text import size_text
from jumar.base.text.digits import Cell
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Block, KeyValues, Page, Section, Text
from jumar.show.tuning.results import graphs, operators, precisions
from jumar.show.tuning.search import progress, tried
from jumar.show.tuning.summary import not_tuned, verdict
from jumar.tune.measure.conditions.preconditions import Conditions
from jumar.tune.search.outcome import TuneResult


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
