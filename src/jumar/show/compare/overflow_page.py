"""The page of `jumar overflow`: the answer, the way to it, then everything else that is not finite."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jumar.base.findings import Severity
from jumar.base.text.digits import Cell
from jumar.comparison.overflow import Frame, Origin, OverflowReport, Saturation
from jumar.comparison.overflow.skips import step_info_of
from jumar.recording.reader import RecordingLike
from jumar.show.blocks.findings import finding_list, status_of
from jumar.show.blocks.page import (
    Action,
    Block,
    Column,
    KeyValues,
    LineChart,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from jumar.show.compare.sources import excerpt

MAX_ROWS = 400
PLACE = (
    Column(title="phase"),
    Column(title="operator", code=True),
    Column(title="module", code=True),
    Column(title="source", code=True),
)
"""Columns of `_place`."""

ABOUT = (
    "An operator makes NaN or Inf of its own when its inputs cannot account for them. They do harm when they reach the "
    "loss, a gradient or a parameter: the first such operator is the answer. Masks of -Inf that are taken up, values "
    "that nothing reads and gradients that only the loss scale makes overflow are harmless. Greatest values are of the "
    "finite elements."
)


def overflow_page(report: OverflowReport, recording: RecordingLike | None = None) -> Page:
    """Return the page for `report`; `recording` gives lines of the sources and the history of the loss scale."""
    sections = [
        _origin(report, recording),
        _frames(report.frames),
        _listed("Origins that are used", report.origins[1:]),
        _saturations(report),
        _skips(report, recording) or _scale_section(report, recording),
        _findings(report),
        _listed("Harmless: masks, values never read, the loss scale", report.benign, collapsed=True),
        _left_out(report),
        _about(report),
    ]
    return Page(
        title="Overflow, NaN and Inf",
        verdict=Verdict(status=status_of(report.findings), headline=report.headline, details=_details(report)),
        actions=_actions(report, recording),
        sections=[section for section in sections if section is not None],
    )


def _details(report: OverflowReport) -> list[str]:
    ranks = f" of {len(report.ranks)} ranks" if len(report.ranks) > 1 else ""
    counts = [(len(report.origins), "used"), (report.num_benign, "harmless"), (len(report.saturations), "saturated")]
    found = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing that is not finite"
    return [f"Looked at {report.num_calls:,} calls in {len(report.steps)} steps{ranks}: {found}."]


def _actions(report: OverflowReport, recording: RecordingLike | None) -> list[Action]:
    found = [finding for finding in report.findings if finding.action and finding.severity >= Severity.WARNING]
    actions = {finding.action: Action(title=finding.action, detail=str(finding.where)) for finding in found}
    first = report.first
    kept = recording is not None and str(recording.path) == report.path
    if first is not None and first.key and kept:
        command = shlex.join(["jumar", "repro", report.path, first.key])
        title = "Write the operator as a script of its own"
        detail = "It needs the operator's tensors: record that step with `--values tensors`."
        actions[title] = Action(title=title, detail=detail, command=command)
    return list(actions.values())[:4]


def _origin(report: OverflowReport, recording: RecordingLike | None) -> Section | None:
    first = report.first
    if first is None:
        return None
    items: list[tuple[str, Cell]] = [
        ("operator", first.operator),
        (
            "module",
            f"{first.module_path or '(root)'} ({first.module_type})" if first.module_type else first.module_path,
        ),
        ("phase", f"{first.phase} of step {first.step}, rank {first.rank}"),
        ("tensor", f"{first.tensor}, {first.dtype} {list(first.shape)}: {first.num_nan:,} NaN, {first.num_inf:,} Inf"),
        ("source", first.source),
        ("reaches", first.reaches),
        ("made NaN by", first.turned_by),
        ("known from", "whole tensors" if first.exact else "statistics"),
    ]
    blocks: list[Block] = [Text(text=first.cause), KeyValues(items=[item for item in items if item[1]])]
    lines = excerpt(first.source, recording) if recording is not None else None
    return Section(title="Where it begins", blocks=[*blocks, *([lines] if lines is not None else [])])


def _frames(frames: Sequence[Frame]) -> Section | None:
    if not frames:
        return None
    columns = [
        Column(title="call", number=True),
        *PLACE,
        Column(title="input", number=True),
        Column(title="output", number=True),
        Column(title="not finite", number=True),
    ]
    rows: list[list[Cell]] = [
        [
            frame.seq,
            *_place(frame),
            frame.greatest_input,
            frame.greatest_output,
            frame.num_nonfinite,
        ]
        for frame in frames
    ]
    table = Table(title="Greatest absolute values", columns=columns, rows=rows, marked=[len(rows) - 1])
    blocks: list[Block] = [table]
    if len(frames) > 2:
        before = [float(place - len(frames) + 1) for place in range(len(frames))]
        lines = [
            Series(name="greatest input", x=before, y=[frame.greatest_input or None for frame in frames]),
            Series(name="greatest output", x=before, y=[frame.greatest_output or None for frame in frames]),
        ]
        chart = LineChart(
            title="How the values grow", x_label="calls before", y_label="greatest value", series=lines, log_y=True
        )
        blocks.insert(0, chart)
    return Section(title="The calls before it", blocks=blocks)


def _place(call: Frame | Origin | Saturation) -> list[Cell]:
    return [call.phase, call.operator, call.module_path, call.source]


def _listed(title: str, origins: Sequence[Origin], *, collapsed: bool = False) -> Section | None:
    if not origins:
        return None
    columns = [
        Column(title="step", number=True),
        Column(title="rank", number=True),
        *PLACE,
        Column(title="NaN", number=True),
        Column(title="Inf", number=True),
        Column(title="reaches" if not collapsed else "why harmless"),
        Column(title="what happened"),
    ]
    rows: list[list[Cell]] = [
        [
            origin.step,
            origin.rank,
            *_place(origin),
            origin.num_nan,
            origin.num_inf,
            origin.reaches if not collapsed else _why(origin),
            origin.cause,
        ]
        for origin in origins[:MAX_ROWS]
    ]
    return Section(title=title, blocks=[Table(columns=columns, rows=rows)], collapsed=collapsed)


def _why(origin: Origin) -> str:
    if origin.fate == "absorbed" and origin.absorbed_by:
        return f"taken up by {origin.absorbed_by}"
    return {"absorbed": "taken up", "unread": "never read", "loss-scale": "the loss scale"}.get(
        origin.fate, origin.fate
    )


def _saturations(report: OverflowReport) -> Section | None:
    if not report.saturations:
        return None
    columns = [
        Column(title="step", number=True),
        *PLACE,
        Column(title="type"),
        Column(title="value", number=True, digits=7),
        Column(title="certain"),
        Column(title="used"),
        Column(title="what happened"),
    ]
    rows: list[list[Cell]] = [
        [
            item.step,
            *_place(item),
            item.dtype,
            item.value,
            item.certain,
            item.used,
            item.cause,
        ]
        for item in report.saturations[:MAX_ROWS]
    ]
    marked = [place for place, item in enumerate(report.saturations[:MAX_ROWS]) if item.certain and item.used]
    return Section(title="Values at the end of their type", blocks=[Table(columns=columns, rows=rows, marked=marked)])


def _skips(report: OverflowReport, recording: RecordingLike | None) -> Section | None:
    if not report.skips:
        return None
    columns = [
        Column(title="step", number=True),
        Column(title="rank", number=True),
        Column(title="loss scale", number=True),
        Column(title="said by"),
        Column(title="first operator", code=True),
        Column(title="module", code=True),
    ]
    rows: list[list[Cell]] = [
        [
            skip.step,
            skip.rank,
            skip.loss_scale,
            "no scaler: the parameters stayed" if skip.silent else "the scaler",
            skip.operator or None,
            skip.module_path or None,
        ]
        for skip in report.skips[:MAX_ROWS]
    ]
    blocks: list[Block] = [Table(columns=columns, rows=rows)]
    rank = report.skips[0].rank
    history = _scales(rank, [skip.step for skip in report.skips if skip.rank == rank], recording)
    if history is not None:
        blocks.insert(0, history)
    return Section(title="Updates that were skipped", blocks=blocks)


def _scale_section(report: OverflowReport, recording: RecordingLike | None) -> Section | None:
    """Return the history of a loss scale that changed although no step was skipped."""
    history = _scales(report.ranks[0], [], recording) if report.ranks else None
    if history is None or len(set(history.series[0].y)) < 2:
        return None
    return Section(title="The loss scale", blocks=[history])


def _scales(rank: int, skipped: Sequence[int], recording: RecordingLike | None) -> LineChart | None:
    """Return the loss scale of each step of a rank, skipped steps marked; None where it was not recorded."""
    if recording is None:
        return None
    scales = [(step, step_info_of(recording, step, rank).loss_scale) for step in recording.steps(rank)]
    known = [(step, scale) for step, scale in scales if scale is not None]
    if len(known) < 2:
        return None
    steps = [float(step) for step, _ in known]
    left_out = set(skipped)
    lines = [
        Series(name="loss scale", x=steps, y=[scale for _, scale in known]),
        Series(name="skipped", x=steps, y=[scale if step in left_out else None for step, scale in known]),
    ]
    title = f"Loss scale and skipped steps, rank {rank}"
    return LineChart(
        title=title, x_label="step", y_label="loss scale", series=lines if left_out else lines[:1], log_y=True
    )


def _findings(report: OverflowReport) -> Section:
    found = finding_list(report.findings, empty="No finding.")
    return Section(title="Findings", blocks=[found])


def _left_out(report: OverflowReport) -> Section | None:
    if not report.notes:
        return None
    text = "\n\n".join(note[:1].upper() + note[1:] for note in report.notes)
    return Section(title="What was not looked at", blocks=[Text(text=text)])


def _about(report: OverflowReport) -> Section:
    items: list[tuple[str, Cell]] = [
        ("recording", report.path),
        ("device", report.device),
        ("mode", report.mode),
        ("steps", len(report.steps)),
        ("ranks", len(report.ranks)),
        ("calls", report.num_calls),
    ]
    return Section(title="What was looked at", blocks=[KeyValues(items=items), Text(text=ABOUT)], collapsed=True)
