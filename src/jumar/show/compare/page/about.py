"""The decision flow of a comparison, the settings of the runs, and what was not compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.base.text.digits import Cell
from jumar.comparison import Comparison, RunSummary
from jumar.comparison.diagnosis import Answer, Diagnosis
from jumar.recording.reader import RecordingLike
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Block, Column, KeyValues, Section, Table, Text
from jumar.show.blocks.pictures import Mark, Question, Questions

MARKS: dict[str, Mark] = {"fine": "fine", "attention": "attention", "failed": "failed", "unknown": ""}


def decision(diagnosis: Diagnosis | None) -> Section | None:
    """Return the questions with their answers."""
    if diagnosis is None:
        return None
    asked = Questions(questions=[_question(answer) for answer in diagnosis.path])
    return Section(title="How it was found", blocks=[asked], collapsed=diagnosis.cause == "none")


def _question(answer: Answer) -> Question:
    return Question(
        question=answer.question,
        answer=answer.answer,
        evidence=answer.evidence,
        mark=MARKS[answer.state],
        decisive=answer.cause is not None,
    )


def hypothesis_list(diagnosis: Diagnosis | None) -> Section | None:
    """Return the hypotheses, the best first."""
    found = [finding for finding in diagnosis.findings if finding.code == "JM341"] if diagnosis is not None else []
    if not found:
        return None
    return Section(title="What the difference looks like", blocks=[finding_list(found)])


ABOUT = {
    "statistics": "Only statistics were recorded: every error is a lower bound (marked ≥), and cosine and greatest "
    "difference are not known. Statistics do not show elements that changed places. Record with `--values tensors` "
    "for exact figures.",
    "sketches": "Sketches were recorded: cosine and relative L2 error are estimates (about 10 % of their own size), "
    "greatest differences are lower bounds (marked ≥). Record with `--values tensors` for exact figures.",
    "tensors": "Errors are exact, from whole tensors: the greater of the L2 and the greatest elementwise difference, "
    "each relative to the scale of the calculation.",
    "none": "No values were recorded: nothing is known about the operators' results.",
}


def settings(recordings: tuple[RecordingLike, RecordingLike] | None) -> Section | None:
    """Return settings and environment side by side, those that differ first."""
    if recordings is None:
        return None
    reference, target = (_flat({"settings": r.info.settings, "environment": r.info.environment}) for r in recordings)
    names = [*reference, *(name for name in target if name not in reference)]
    names.sort(key=lambda name: reference.get(name) == target.get(name))
    if not names:
        return None
    rows: list[list[Cell]] = [[name, reference.get(name), target.get(name)] for name in names]
    marked = [index for index, (_, first, second) in enumerate(rows) if first != second]
    columns = [Column(title="setting", code=True), Column(title="reference"), Column(title="target")]
    title = f"{len(marked)} of {len(rows)} differ" if marked else "All are equal"
    table = Table(title=title, columns=columns, rows=rows, marked=marked)
    return Section(title="Settings side by side", blocks=[table], collapsed=True)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Cell]:
    flat: dict[str, Cell] = {}
    for name, value in values.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping):
            flat |= _flat(value, path)
        else:
            flat[path] = value if value is None or isinstance(value, bool | int | float | str) else str(value)
    return flat


def left_out(comparison: Comparison, diagnosis: Diagnosis | None) -> Section | None:
    """Return what was not compared. It never counts as agreement."""
    notes = [*comparison.notes, *(diagnosis.notes if diagnosis is not None else ())]
    uncompared = [diff for diff in comparison.operators if diff.status == "not-compared"]
    blocks: list[Block] = []
    if notes:
        blocks.append(Text(text="\n\n".join(note[:1].upper() + note[1:] for note in notes)))
    if uncompared:
        reasons: dict[tuple[str, str], int] = {}
        for diff in uncompared:
            why = diff.note or next((t.note for t in (*diff.outputs, *diff.inputs) if t.note), "") or "no values"
            reasons[diff.name, why] = reasons.get((diff.name, why), 0) + 1
        columns = [Column(title="operator", code=True), Column(title="calls", number=True), Column(title="why")]
        rows: list[list[Cell]] = [[name, count, why] for (name, why), count in reasons.items()]
        rows.sort(key=lambda row: -int(row[1] or 0))
        blocks.append(Table(title="Calls that were not compared", columns=columns, rows=rows))
    return Section(title="What was not compared", blocks=blocks, collapsed=True) if blocks else None


def about(comparison: Comparison) -> Section:
    """Return which runs these are and what the figures mean."""
    blocks: list[Block] = [
        KeyValues(title="reference", items=_facts(comparison.reference)),
        KeyValues(title="target", items=_facts(comparison.target)),
        Text(text=ABOUT[comparison.evidence]),
    ]
    return Section(title="What was compared", blocks=blocks, collapsed=True)


def _facts(run: RunSummary) -> list[tuple[str, Cell]]:
    return [
        ("recording", run.path),
        ("device", run.device),
        ("command", " ".join(run.command)),
        ("torch", run.torch_version),
        ("values", run.values),
        ("steps", len(run.steps)),
        ("ranks", len(run.ranks)),
    ]
