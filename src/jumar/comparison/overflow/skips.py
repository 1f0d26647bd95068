"""Finds steps without an update, and tells a lasting fault from a search for the loss scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jumar.comparison.measure.scales import elements, is_known, num_nonfinite
from jumar.comparison.model.kinds import SCALER_CHECK
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, StepInfo, TensorRow

PERSISTENT = 8
"""Steps skipped in a row from which the scale is not the cause: it has fallen to a 256th by then."""

MINIMUM_SCALE = 1.0
"""At this scale and below, gradients are not scaled up any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A step whose update was left out because of NaN or Inf in the gradients."""

    step: int
    rank: int
    loss_scale: float | None
    """None when there is no scaler, or it is not known."""
    silent: bool
    """No scaler skipped the step: the gradients were not finite and the parameters did not change."""
    operator: str = ""
    """The first operator of the step that made NaN or Inf of its own; empty where none is recorded."""
    module_path: str = ""


def step_info_of(recording: RecordingLike, step: int, rank: int) -> StepInfo:
    """Return what the recording knows of a step as a whole; an empty `StepInfo` for a format that does not keep it."""
    ask = getattr(recording, "step_info", None)
    found = ask(step, rank) if ask is not None else None
    return found if isinstance(found, StepInfo) else StepInfo()


def skip_of(step: int, rank: int, rows: Sequence[CallRow], info: StepInfo) -> Skip | None:
    """Return the skip of a step, or None when its update was made (or nothing is known)."""
    if info.skipped is not None:
        return Skip(step=step, rank=rank, loss_scale=info.loss_scale, silent=False) if info.skipped else None
    found = _by_scaler_check(rows)
    if found is not None:
        return Skip(step=step, rank=rank, loss_scale=info.loss_scale or found, silent=False) if found > 0 else None
    if _silently(rows):
        return Skip(step=step, rank=rank, loss_scale=None, silent=True)
    return None


def _by_scaler_check(rows: Sequence[CallRow]) -> float | None:
    """Return the loss scale of a step in which GradScaler's operator found NaN or Inf, 0 where it found none, None
    without the operator.

    `_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inv_scale)` sets found_inf to 1.
    """
    scale: float | None = None
    for row in rows:
        if row.kind != "op" or SCALER_CHECK not in row.name:
            continue
        inverse = next((t.mean for t in row.inputs if t.name.endswith(("input.2", "inv_scale"))), None)
        flags = [tensor for tensor in row.outputs if elements(tensor) == 1]
        flag = flags[-1].maximum if flags else None
        if flag is None:
            continue
        scale = max(scale or 0.0, (1.0 / inverse if inverse else 1.0) if flag > 0 else 0.0)
    return scale


def _silently(rows: Sequence[CallRow]) -> bool:
    """Return whether a gradient is not finite while its parameter stayed finite, so that the update was left out."""
    for row in rows:
        if row.kind != "parameter":
            continue
        wrong = [tensor for tensor in row.inputs if tensor.name == "input.grad" and num_nonfinite(tensor)]
        if wrong and row.outputs and all(_is_finite(tensor) for tensor in row.outputs):
            return True
    return False


def _is_finite(tensor: TensorRow) -> bool:
    return is_known(tensor) and not num_nonfinite(tensor)


def persistent(skips: Sequence[Skip], steps: Sequence[int]) -> tuple[Skip, ...]:
    """Return the skips (of one rank) that will not end by themselves; empty when the scaler is only finding its scale.

    The skips are lasting in four cases: at least `PERSISTENT` steps in a row were skipped; a step was skipped at a
    scale of `MINIMUM_SCALE` or less; all of at least three steps were skipped; a step was skipped silently.
    """
    silent = tuple(skip for skip in skips if skip.silent)
    if silent:
        return silent
    at_minimum = tuple(s for s in skips if s.loss_scale is not None and s.loss_scale <= MINIMUM_SCALE)
    run = _longest_run([skip.step for skip in skips])
    if at_minimum or run >= PERSISTENT or (len(skips) == len(steps) and len(steps) >= 3):
        return tuple(skips)
    return ()


def _longest_run(steps: Sequence[int]) -> int:
    longest = current = 1 if steps else 0
    for before, after in pairwise(steps):
        current = current + 1 if after == before + 1 else 1
        longest = max(longest, current)
    return longest
