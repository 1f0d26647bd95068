"""The page of `jumar port`: the verdict, what to do next, then the evidence, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.base.findings import Severity
from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.convert.assess.model import STATUSES, Assessment, Row
from jumar.port.result import PortResult
from jumar.port.runs import Run
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import (
    Block,
    Column,
    Diff,
    KeyValues,
    LineChart,
    Listing,
    Page,
    Section,
    Series,
    Table,
    Text,
)
from jumar.show.compare.page import compare_page
from jumar.show.pages.advise import advise_page
from jumar.show.port.verdict import actions, of_room, verdict


def port_page(result: PortResult) -> Page:
    """Return the page of a finished, or half finished, port."""
    sections = [
        _losses(result),
        *_accuracy(result),
        _support(result),
        _conversion(result),
        *_performance(result),
        _runs(result),
    ]
    return Page(
        title=f"{result.options.script.name} on {result.options.soc}",
        verdict=verdict(result),
        actions=actions(result),
        sections=[section for section in sections if section is not None],
        footer="Times are host times of the recorded runs, not times of an NPU.",
    )


def _losses(result: PortResult) -> Section | None:
    series = []
    for run, name in ((result.reference, "reference"), (result.target, "NPU")):
        if run is not None and run.losses:
            series.append(Series(name=name, x=[step for step, _ in run.losses], y=[loss for _, loss in run.losses]))
    if not series:
        return None
    blocks: list[Block] = [LineChart(title="Loss by step", x_label="step", y_label="loss", series=series)]
    if len(series) == 2:
        blocks.append(_loss_table(series[0], series[1]))
    return Section(title="Loss", blocks=blocks)


def _loss_table(reference: Series, target: Series) -> Table:
    of_target = dict(zip(target.x, target.y, strict=True))
    rows = []
    for step, loss in zip(reference.x, reference.y, strict=True):
        other = of_target.get(step)
        difference = abs(loss - other) if loss is not None and other is not None else None
        rows.append([int(step), loss, other, difference])
    columns = [
        Column(title="step", number=True),
        Column(title="reference", number=True, digits=7),
        Column(title="NPU", number=True, digits=7),
        Column(title="absolute difference", number=True),
    ]
    return Table(columns=columns, rows=rows)


def _accuracy(result: PortResult) -> list[Section]:
    if result.comparison is None:
        return []
    shown = {"Loss", "Losses"}  # on top of this page
    both = result.reference, result.target
    recordings = [run.recording for run in both if run is not None and run.recording is not None]
    page = compare_page(
        result.comparison,
        diagnosis=result.diagnosis,
        recordings=(recordings[0], recordings[1]) if len(recordings) == 2 else None,
    )
    return _part("Accuracy", [s for s in page.sections if s.title not in shown])


def _part(name: str, sections: Sequence[Section]) -> list[Section]:
    """Return the sections of another page as parts of this one, named after where they come from."""
    titles = [section.title.lower().removeprefix(name.lower()).strip() for section in sections]
    return [replace(section, title=f"{name}: {title}") for section, title in zip(sections, titles, strict=True)]


def _support(result: PortResult) -> Section | None:
    if result.source is None:
        return None
    blocks: list[Block] = [
        Text(text=f"What the sources call: {result.source.verdict}"),
        finding_list(
            of_room(result.findings, "support"), empty="Nothing the sources call or the run executed needs attention."
        ),
    ]
    if result.executed is not None:
        blocks.insert(1, Text(text=f"What the run executed: {result.executed.verdict}"))
        blocks.append(_operators(result.executed))
    return Section(title=f"Support on {result.options.soc}", blocks=blocks)


def _operators(executed: Assessment) -> Table:
    columns = [
        Column(title="operator", code=True),
        Column(title="status"),
        Column(title="calls", number=True, bar=True),
        Column(title="first used at", code=True),
        Column(title="in module", code=True),
    ]
    rows: list[list[Cell]] = [
        [row.name, row.status, row.num_uses, *_first_use(row)]
        for row in sorted(executed.rows, key=lambda row: (STATUSES.index(row.status), row.name))
    ]
    return Table(columns=columns, rows=rows, title="Operators that ran")


def _first_use(row: Row) -> list[Cell]:
    if not row.where:
        return ["", ""]
    first = row.where[0]
    return [f"{first.path}:{first.line}" if first.path else "", first.module_path or ""]


def _conversion(result: PortResult) -> Section | None:
    if result.conversion is None:
        return None
    found = of_room(result.findings, "conversion")
    left = [finding for finding in found if finding.severity >= Severity.ADVICE]
    blocks: list[Block] = [
        Text(text=_proof(result)),
        finding_list(left, empty="Nothing is left to do by hand."),
        Diff(
            title=f"changes.patch ({len(found) - len(left)} notes on single edits are in findings.json)",
            text=result.conversion.patch(),
        ),
    ]
    return Section(title="Conversion", blocks=blocks)


def _proof(result: PortResult) -> str:
    """Return what the static proof says, in one sentence."""
    assert result.conversion is not None
    checked = counted(len(result.conversion.changed), "changed file")
    if result.proof:
        return f"Proof without running: {counted(len(result.proof), 'fault')} in {checked}; each is listed below."
    return (
        f"Proof without running: {checked} parse, define the names they use, name what this release has, "
        "follow from the recorded edits, and stay the same when converted again."
    )


def _performance(result: PortResult) -> list[Section]:
    return _part("Performance", advise_page(result.advice).sections) if result.advice is not None else []


def _runs(result: PortResult) -> Section:
    blocks: list[Block] = [KeyValues(title=run.side, items=_facts(run)) for run in result.runs]
    failed = result.failed
    if failed is not None:
        blocks.append(Listing(title=f"What the {failed.side} run said when it failed", text=failed.error()))
    blocks.append(finding_list(of_room(result.findings, "run"), empty="Both runs came to their end."))
    return Section(title="How it was run", blocks=blocks)


def _facts(run: Run) -> list[tuple[str, bool | int | float | str | None]]:
    facts: list[tuple[str, bool | int | float | str | None]] = [("steps", run.num_steps), ("log", str(run.log))]
    if run.end is not None:
        facts += [("ended", run.end.status), ("wall time (s)", round(run.end.wall_s, 2))]
    if run.recording is not None:
        info = run.recording.info
        facts += [("device", info.device), ("SoC", info.soc), ("torch", info.torch_version)]
        facts += [("command", " ".join(info.command)), ("recording", str(run.recording.path))]
    return facts
