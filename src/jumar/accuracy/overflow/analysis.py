"""Finds where NaN, Inf and saturated values come from in a recording, a rank and a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.accuracy.overflow import semantics
from jumar.accuracy.overflow.causes import saturation_cause
from jumar.accuracy.overflow.conclusion import conclude
from jumar.accuracy.overflow.explain import Load
from jumar.accuracy.overflow.fates import frames_before, origin_of
from jumar.accuracy.overflow.options import OverflowOptions, check_mode, saturates
from jumar.accuracy.overflow.results import Found, Origin, OverflowReport, Saturation, sighting
from jumar.accuracy.overflow.roles import roles_of
from jumar.accuracy.overflow.saturation import Stop, stops
from jumar.accuracy.overflow.skips import skip_of, step_info_of
from jumar.accuracy.overflow.walk import StepWalk
from jumar.accuracy.source import RecordingLike, opened
from jumar.errors import RecordingError
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
    roles = roles_of(rows)
    walked = [row for row in rows if row.kind == roles.level]
    found.num_calls += sum(any(semantics.is_known(tensor) for tensor in row.outputs) for row in walked)
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
        skips=tuple(skip for item in found.values() for skip in item.skips),
        frames=tuple(found[leading].frames) if leading is not None else (),
        notes=tuple(notes),
        num_calls=sum(item.num_calls for item in found.values()),
    )


def _order(origin: Origin) -> tuple[int, bool, int, int]:
    """Order by step; what came from another rank after that rank's own."""
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
