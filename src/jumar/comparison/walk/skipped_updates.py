"""Finds updates that `GradScaler` left out in one run only, and whether its scale accounts for them.

A scaler multiplies the loss, and halves its scale when a gradient overflows. A run that starts with a greater scale, or
that computes in float16 where the other run does not, therefore skips steps that the other run makes. That is no fault,
but from that step on the runs are one update apart. The gradients of the other run tell whether the scale is the cause:
in the skipping run's scale their greatest value comes near the greatest number of the type. If it does not, something
else made the Inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jumar.comparison.judge.flow import Side
from jumar.comparison.measure.scales import greatest_of
from jumar.comparison.model.words import number
from jumar.comparison.overflow.skips import MINIMUM_SCALE, PERSISTENT, skip_of, step_info_of
from jumar.operators import dtypes
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

GREATEST_OF_OTHERS = 2.0**128
"""Of float32 and bfloat16."""

MARGIN = 2.0
"""How far below the end of the type the other run's greatest value may stay: the runs are not equal to the bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedUpdate:
    """An update that one run made and the other's scaler left out."""

    side: Side
    """The run without the update."""
    step: int
    """Of the reference."""
    rank: int
    scale: float | None
    benign: bool
    """Whether the scale accounts for it."""
    reason: str
    scales: tuple[tuple[int, float | None, bool | None], ...]
    """Of the skipping run: step, scale, skipped or not."""


def skipped_update(
    runs: tuple[RecordingLike, RecordingLike],
    steps: tuple[int, int],
    ranks: tuple[int, int],
    rows: tuple[Sequence[CallRow], Sequence[CallRow]],
) -> SkippedUpdate | None:
    """Return the update that one of two steps made and the other's scaler left out; None where both or none did."""
    infos = [step_info_of(run, step, rank) for run, step, rank in zip(runs, steps, ranks, strict=True)]
    skips = [skip_of(*of) for of in zip(steps, ranks, rows, infos, strict=True)]
    if (skips[0] is None) == (skips[1] is None):
        return None
    at = 0 if skips[0] is not None else 1
    skip = skips[at]
    if skip is None or skip.silent:
        return None
    scales = _history(runs[at], ranks[at])
    unscaled = 1.0 / (infos[1 - at].loss_scale or 1.0)
    reason, benign = _judged(rows[at], rows[1 - at], skip.loss_scale, unscaled)
    if benign and (lasting := _lasting(scales)):
        reason, benign = lasting, False
    return SkippedUpdate(
        side="target" if at else "reference",
        step=steps[0],
        rank=ranks[0],
        scale=skip.loss_scale,
        benign=benign,
        reason=reason,
        scales=scales,
    )


def benign_skip(skipped: Iterable[SkippedUpdate], rank: int) -> int | None:
    """Return the first step of a rank from which the runs are an update apart without a fault; None without one."""
    return next((skip.step for skip in skipped if skip.benign and skip.rank == rank), None)


def without_backward(rows: Iterable[CallRow]) -> list[CallRow]:
    """Return the rows of a step's forward pass: the backward pass of one run overflowed because of its scale."""
    return [row for row in rows if row.phase == "forward" or row.kind == "loss"]


def _judged(
    skipping: Sequence[CallRow], others: Sequence[CallRow], scale: float | None, unscaled: float
) -> tuple[str, bool]:
    """Return why the update was left out, and whether the scale is the cause. `skipping` are that run's rows."""
    loss = next((row for row in skipping if row.kind == "loss" and _num_nonfinite(row)), None)
    if loss is not None:
        return "its loss is not finite, which the scale cannot cause", False
    if scale is None:
        return "the scale was not recorded", False
    narrow = _narrow(skipping)
    limit = min((_end(dtype) for dtype, _ in narrow), default=_end("float16"))
    greatest = unscaled * _greatest(others, {shape for dtype, shape in narrow if _end(dtype) == limit})
    if not greatest:
        return "the other run's gradients were not recorded", False
    near = MARGIN * scale * greatest >= limit
    comes = f"the other run's gradients come up to {number(greatest)}, {number(scale * greatest)} in that scale"
    return f"{comes}, {'near' if near else 'far below'} the {number(limit)} at which the type ends", near


def _end(dtype: str) -> float:
    """Return the greatest number of a half or a float8; that of float32 for all others."""
    largest = dtypes.largest(dtype)
    return largest if largest is not None and largest < GREATEST_OF_OTHERS / 2 else GREATEST_OF_OTHERS


def _narrow(rows: Iterable[CallRow]) -> set[tuple[str, tuple[int, ...]]]:
    """Return types and shapes that a backward pass calculates in."""
    return {(t.dtype, t.shape) for row in rows if row.kind == "op" and row.phase == "backward" for t in row.outputs}


def _greatest(rows: Sequence[CallRow], shapes: set[tuple[int, ...]]) -> float:
    """Return the greatest value of these shapes in a backward pass; where there is none, of the gradients."""
    passed = [t for row in rows if row.kind == "op" and row.phase == "backward" for t in row.outputs]
    read = [t for row in rows if row.kind == "parameter" for t in row.inputs]
    found = [t for t in passed if not shapes or t.shape in shapes] or read
    return max((greatest_of(tensor) for tensor in found if tensor.minimum is not None), default=0.0)


def _num_nonfinite(row: CallRow) -> int:
    return sum((tensor.num_nan or 0) + (tensor.num_inf or 0) for tensor in row.outputs)


def _history(run: RecordingLike, rank: int) -> tuple[tuple[int, float | None, bool | None], ...]:
    infos = [(step, step_info_of(run, step, rank)) for step in run.steps(rank)]
    return tuple((step, info.loss_scale, info.skipped) for step, info in infos)


def _lasting(scales: Sequence[tuple[int, float | None, bool | None]]) -> str:
    """Return why the scale's history says that a smaller scale does not help; empty when it does not say so."""
    skipped = [(step, scale) for step, scale, skips in scales if skips]
    if any(scale is not None and scale <= MINIMUM_SCALE for _, scale in skipped):
        return f"a step was skipped at a scale of {number(MINIMUM_SCALE)} or less"
    run = longest = 0
    for _, _, skips in scales:
        run = run + 1 if skips else 0
        longest = max(longest, run)
    return f"{longest} steps in a row were skipped" if longest >= PERSISTENT else ""
