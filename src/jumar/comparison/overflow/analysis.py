"""Finds where NaN, Inf and saturated values in a recording come from: `find_overflow`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import RecordingError
from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.comparison.measure.scales import is_known
from jumar.comparison.model.frameworks.backward import complete_backward, lacks_operators
from jumar.comparison.overflow.options import OverflowOptions, check_mode, saturates
from jumar.comparison.overflow.results import Found, Origin, OverflowReport, Saturation, sighting
from jumar.comparison.overflow.rules import (
    benign_nonfinite,
    first_overflow,
    nonfinite_at_start,
    overflow_not_judged,
    persistent_skipping,
    saturated_values,
)
from jumar.comparison.overflow.skips import Skip, skip_of, step_info_of
from jumar.comparison.overflow.trace import semantics
from jumar.comparison.overflow.trace.causes import saturation_cause
from jumar.comparison.overflow.trace.explain import Load
from jumar.comparison.overflow.trace.fates import frames_before, origin_of
from jumar.comparison.overflow.trace.roles import roles_of
from jumar.comparison.overflow.trace.saturation import Stop, stops
from jumar.comparison.overflow.trace.walk import StepWalk
from jumar.comparison.overflow.words import counts, place
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

MAX_BENIGN = 200
"""Harmless origins kept, the first of each operator, place and cause."""


def find_overflow(
    recording: str | Path | RecordingLike,
    *,
    options: OverflowOptions | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> OverflowReport:
    """Return where NaN, Inf and saturated values of a recording come from and whether they are used.

    One step is held in memory at a time. After the first step of a rank with an origin that is used, only the
    updates that were skipped are looked at. Raises RecordingError for what cannot be read, UsageError for a mode
    that the recording's chip does not have.
    """
    options = options or OverflowOptions()
    run = opened(recording)
    check_mode(options.mode, run.info.soc if run.info.device.startswith("npu") else "")
    chosen = {rank: _chosen(run.steps(rank), options) for rank in run.ranks}
    total, done = sum(map(len, chosen.values())), 0
    found = {rank: Found() for rank in chosen}
    for rank, steps in chosen.items():
        for step in steps:
            _look(run, step, rank, found[rank], options)
            done += 1
            if on_progress is not None:
                on_progress(done, total)
    return conclude(_report(run, options, chosen, found))


def _chosen(steps: Sequence[int], options: OverflowOptions) -> list[int]:
    first, end = options.steps or (0, None)
    return [step for step in steps if step >= first and (end is None or step < end)]


def _look(run: RecordingLike, step: int, rank: int, found: Found, options: OverflowOptions) -> None:
    """Look at one step of one rank."""
    rows = run.rows(step, rank)
    if lacks_operators(run.info.framework, rows):
        rows = complete_backward(rows)
    roles = roles_of(rows)
    walked = [row for row in rows if row.kind == roles.level]
    found.num_calls += sum(any(is_known(tensor) for tensor in row.outputs) for row in walked)
    _note_gaps(walked, found)
    skip = skip_of(step, rank, rows, step_info_of(run, step, rank))
    if skip is not None:
        found.skips.append(skip)
    if any(origin.fate == "consumed" for origin in found.origins):
        return
    sources = StepWalk(rows, roles, _loader(run)).run()
    new = [origin_of(source, rows, roles, skip) for source in sources]
    new = [origin for origin in new if _wanted(origin, options)]
    found.origins += new
    first = min((origin.seq for origin in new if origin.fate == "consumed"), default=None)
    if not any(item.used and not item.skipped for item in found.saturations):
        found.saturations += [
            _saturation(stop, run, skipped=skip is not None and stop.row.phase == "backward")
            for stop in stops(rows, roles)
            if options.mode == "all" or (options.mode == "atomic_overflow") == semantics.is_atomic(stop.row)
        ]
    if first is None and not found.frames:
        first = next(
            (s.seq for s in found.saturations if s.step == step and s.used and s.certain and not s.skipped), None
        )
    if first is not None:
        found.frames = frames_before(rows, first, roles, options.num_frames)


def _wanted(origin: Origin, options: OverflowOptions) -> bool:
    if options.mode == "all" or origin.kind not in {"overflow", "invalid"}:
        return True
    return (options.mode == "atomic_overflow") == origin.is_atomic


def _note_gaps(walked: Sequence[CallRow], found: Found) -> None:
    if walked and walked[0].kind == "module":
        found.notes["only modules were recorded: the module is named, not the operator in it"] = None
    if any(tensor.storage == 0 for row in walked for tensor in (*row.inputs, *row.outputs)):
        found.notes["memory is not numbered in this format: values are followed where their statistics are equal"] = (
            None
        )


def _loader(run: RecordingLike) -> Load:
    """Return what gives the whole tensors of a call, where the recording has any."""
    if not run.has_tensors():
        return lambda _row: None

    def load(row: CallRow) -> Mapping[str, np.ndarray] | None:
        try:
            return run.tensors(row)
        except RecordingError:
            return None

    return load


def _saturation(stop: Stop, run: RecordingLike, *, skipped: bool) -> Saturation:
    row, certain = stop.row, stop.at_end and saturates(run.info)
    return Saturation(
        **sighting(row, stop.tensor),
        value=stop.value,
        certain=certain,
        used=stop.used,
        is_atomic=semantics.is_atomic(row),
        cause=saturation_cause(row, stop.tensor, stop.value, stop.at_end),
        skipped=skipped,
    )


def _report(
    run: RecordingLike, options: OverflowOptions, chosen: dict[int, list[int]], found: dict[int, Found]
) -> OverflowReport:
    origins = sorted((o for item in found.values() for o in item.origins), key=_order)
    used = [origin for origin in origins if origin.fate == "consumed"]
    benign = [origin for origin in origins if origin.fate != "consumed"]
    saturations = sorted(
        (s for item in found.values() for s in item.saturations), key=lambda s: (s.step, s.seq, s.rank)
    )
    notes = dict.fromkeys(run.warnings)
    notes |= {text: None for end in run.ends.values() for text in end.not_covered}
    for item in found.values():
        notes |= item.notes
    leading = _leading(used, saturations)
    return OverflowReport(
        path=str(run.path),
        device=run.info.device,
        mode=options.mode,
        steps=tuple(sorted({step for steps in chosen.values() for step in steps})),
        ranks=tuple(chosen),
        origins=tuple(used),
        benign=tuple(_distinct(benign)[:MAX_BENIGN]),
        num_benign=len(benign),
        saturations=tuple(saturations),
        skips=tuple(_with_operator(skip, origins) for item in found.values() for skip in item.skips),
        frames=tuple(found[leading].frames) if leading is not None else (),
        notes=tuple(notes),
        num_calls=sum(item.num_calls for item in found.values()),
    )


def _with_operator(skip: Skip, origins: Sequence[Origin]) -> Skip:
    """Return the skip with the operator where its NaN or Inf begin; what is taken up or never read is not meant."""
    for origin in origins:
        if (origin.step, origin.rank) == (skip.step, skip.rank) and origin.fate not in {"absorbed", "unread"}:
            return replace(skip, operator=origin.operator, module_path=origin.module_path)
    return skip


def _order(origin: Origin) -> tuple[int, bool, int, int]:
    """Order by step. An origin that came from another rank stands after the origin on that rank."""
    return origin.step, origin.kind == "peer", origin.seq, origin.rank


def _leading(used: Sequence[Origin], saturations: Sequence[Saturation]) -> int | None:
    """Return the rank whose origin, or certain saturation, comes first."""
    if used:
        return used[0].rank
    certain = [item for item in saturations if item.used and item.certain and not item.skipped]
    return certain[0].rank if certain else None


def _distinct(origins: Sequence[Origin]) -> list[Origin]:
    seen: dict[tuple[str, ...], Origin] = {}
    for origin in origins:
        seen.setdefault((origin.operator, origin.module_path, origin.phase, origin.fate, origin.source), origin)
    return list(seen.values())


_RULES = (
    nonfinite_at_start,
    first_overflow,
    saturated_values,
    persistent_skipping,
    overflow_not_judged,
    benign_nonfinite,
)
"""The most decisive first."""


def conclude(report: OverflowReport) -> OverflowReport:
    """Return the report with its findings, the most decisive first, and its headline."""
    findings = tuple(finding for rule in _RULES for finding in rule.find(report))
    ordered = tuple(sorted(findings, key=lambda finding: -int(finding.severity)))
    return replace(report, findings=ordered, headline=_headline(report, findings))


def _headline(report: OverflowReport, findings: tuple[Finding, ...]) -> str:
    decisive = {finding.code: finding for finding in findings if finding.severity >= Severity.ERROR}
    if report.first is not None:
        return _first(report)
    if "JM333" in decisive:
        item = next(s for s in report.saturations if s.used and s.certain and not s.skipped)
        return f"The first operator that overflows is {place(item)}: on this chip it saturates."
    if "JM332" in decisive:
        return f"Training does not go on: {decisive['JM332'].message}"
    if "JM335" in decisive:
        return decisive["JM335"].message
    steps = counted(len(report.steps), "step")
    skips = f" The scaler skipped {counted(len(report.skips), 'step')}, and training goes on." if report.skips else ""
    harmless = f" ({counted(report.num_benign, 'origin')} of NaN or Inf without harm)" if report.num_benign else ""
    mode = "" if report.mode == "all" else f" of {report.mode}"
    return f"No overflow{mode} is used in {steps}{harmless}.{skips}"


def _first(report: OverflowReport) -> str:
    origin = report.first
    assert origin is not None
    what = "NaN" if origin.num_nan and not origin.num_inf else "Inf"
    if origin.kind == "data":
        return (
            f"The data are not finite: {counts(origin)} in {origin.tensor} of {place(origin)}; no operator made them."
        )
    if origin.kind in {"parameter", "state"}:
        noun = "A parameter" if origin.kind == "parameter" else "A buffer or state"
        return f"{noun} was not finite from the start: {counts(origin)} in {origin.tensor} of {place(origin)}."
    if origin.kind == "constant" and origin.turned_by:
        return f"An Inf that the program put there is used: {origin.turned_by} makes NaN of what {place(origin)} gave."
    if origin.kind == "peer":
        return f"{what} came from another rank with a collective; it is first read by {place(origin)}."
    if origin.kind in {"unseen", "uninitialised", "constant"}:
        return f"{what} that no calculation made is used: {place(origin)}, {origin.cause}."
    return f"The first operator that makes {what} of finite values, and it is used, is {place(origin)}."
