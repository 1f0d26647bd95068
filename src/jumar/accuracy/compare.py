"""Compares two recordings: settings, data, parameters, then the first operator that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jumar.accuracy.align import align_step
from jumar.accuracy.calls import Call
from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.floor_recordings import measure_floor
from jumar.accuracy.judge import Load
from jumar.accuracy.leaves import Leaf
from jumar.accuracy.losses import compare_losses
from jumar.accuracy.measure import Loader
from jumar.accuracy.memory import Memory
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.precision import reduced_products
from jumar.accuracy.results import Comparison, OperatorDiff
from jumar.accuracy.settings import setting_differences
from jumar.accuracy.source import RecordingLike, TensorReader, opened
from jumar.accuracy.tolerance import EPSILON, epsilon
from jumar.accuracy.verdict import conclude
from jumar.accuracy.walk import StepOutcome, compare_step
from jumar.recording.schema import CallRow

MAX_UNMATCHED = 5_000
"""Unmatched calls kept on each side; the counts in the findings are of these."""


def compare(
    reference: str | Path | RecordingLike,
    target: str | Path | RecordingLike,
    *,
    options: CompareOptions | None = None,
    floors: Sequence[str | Path | RecordingLike] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare two recordings, given as folders or opened.

    `floors` are further recordings of the reference under other conditions (`jumar record --vary`): differences
    are then judged in multiples of the noise that they show, instead of an estimate of it.
    One step is held in memory at a time; `on_progress` is called with the steps done and to do. What a
    recording lacks (steps, ranks, values) is said in the result. Raises RecordingError when one is
    missing, foreign or of a newer schema, or a floor recording is of another run than the reference.
    """
    options = options or CompareOptions()
    found = Evidenced(opened(reference), opened(target))
    found.settings = setting_differences(found.reference.info, found.target.info)
    _note_coverage(found)
    if floors:
        found.floor = measure_floor(found.reference, [opened(floor) for floor in floors], _loader)
    for rank in _common_ranks(found):
        _compare_rank(found, rank, options, on_progress)
    without = found.counts["not-compared"]
    if without > found.counts.total() / 2:
        found.notes.append(
            f"{without:,} of {found.counts.total():,} pairs of calls hold no values that could be compared"
        )
    return conclude(found)


def _note_coverage(found: Evidenced) -> None:
    for side, recording in (("reference", found.reference), ("target", found.target)):
        found.notes.extend(f"{side}: {warning}" for warning in recording.warnings)
        for end in recording.ends.values():
            found.notes.extend(f"{side}, rank {end.rank}, not covered: {text}" for text in end.not_covered)
    values = {found.reference.info.values, found.target.info.values}
    if len(values) > 1 and "tensors" in values:
        found.notes.append("only one recording holds whole tensors: statistics are compared")


def _common_ranks(found: Evidenced) -> list[int]:
    mine, theirs = set(found.reference.ranks), set(found.target.ranks)
    if mine != theirs:
        found.notes.append(f"ranks {sorted(mine ^ theirs)} are in one recording only and are not compared")
    return sorted(mine & theirs)


def _common_steps(found: Evidenced, rank: int, options: CompareOptions) -> list[int]:
    mine, theirs = set(found.reference.steps(rank)), set(found.target.steps(rank))
    if mine != theirs:
        found.notes.append(f"rank {rank}: steps {_brief(mine ^ theirs)} are in one recording only and are not compared")
    first, end = options.steps or (0, 1 << 62)
    return sorted(step for step in mine & theirs if first <= step < end)


def _brief(steps: set[int]) -> str:
    ordered = sorted(steps)
    return str(ordered) if len(ordered) <= 6 else f"{ordered[0]} to {ordered[-1]} ({len(ordered)})"


def _compare_rank(
    found: Evidenced, rank: int, options: CompareOptions, on_progress: Callable[[int, int], None] | None
) -> None:
    load = _loader(found)
    memory = Memory(floor=found.floor, reduced=reduced_products(found.reference.info, found.target.info))
    steps = _common_steps(found, rank, options)
    for step in steps:
        if _ended(found) and not options.all_steps:
            found.notes.append(
                f"rank {rank}: the operators of steps {step} to {steps[-1]} were not compared after that"
            )
            break
        mine, theirs = found.reference.rows(step, rank), found.target.rows(step, rank)
        memory.begin_step(mine, theirs)
        step_of_both = align_step(mine, theirs)
        outcome = compare_step(step_of_both, load, tolerance_scale=options.tolerance_scale, memory=memory)
        if not found.coarsest:
            found.coarsest = max(_coarsest(mine), _coarsest(theirs))
        _collect(found, outcome, step, is_first=step == steps[0], options=options)
        if on_progress is not None:
            on_progress(steps.index(step) + 1, len(steps))
    found.losses.extend(compare_losses(found.reference.losses(rank), found.target.losses(rank), rank, found.coarsest))


def _ended(found: Evidenced) -> bool:
    return found.first is not None or bool(found.leaves) or found.random is not None


def _loader(found: Evidenced) -> Load:
    if not (found.reference.has_tensors() and found.target.has_tensors()):
        return lambda _reference, _target: None
    mine, theirs = TensorReader(found.reference), TensorReader(found.target)
    return lambda reference, target: (_of(mine, reference), _of(theirs, target))


def _of(reader: TensorReader, call: Call) -> Loader:
    """Return what loads a tensor of `call`; one that stands for a region has tensors of several rows."""
    if not call.homes:
        return reader.of(call.row)
    return lambda tensor: reader.of(call.row_of(tensor))(tensor)


def _coarsest(rows: list[CallRow]) -> float:
    """Return the coarsest epsilon in which a run calculates, from the outputs of its operators."""
    dtypes = {tensor.dtype for row in rows for tensor in row.outputs} | {row.autocast for row in rows}
    return max((epsilon(dtype) for dtype in dtypes), default=EPSILON["float32"])


def _collect(found: Evidenced, outcome: StepOutcome, step: int, *, is_first: bool, options: CompareOptions) -> None:
    found.kinds.add(outcome.kind)
    if outcome.kind == "none":
        return
    found.steps.append(step)
    found.counts.update(diff.status for diff in outcome.operators)
    _keep_operators(found, outcome.operators, options.max_operators)
    for kept, new in (
        (found.unmatched_reference, outcome.unmatched_reference),
        (found.unmatched_target, outcome.unmatched_target),
    ):
        kept.extend(new[: MAX_UNMATCHED - len(kept)])
        found.num_unmatched += sum(not call.layout_only for call in new)
    leaves = _leaves_that_matter(outcome, is_first=is_first)
    if leaves and not _ended(found):
        found.leaves, found.leaves_step = leaves, step
    if not _ended(found) or (found.leaves and found.leaves_step == step):
        found.random = outcome.random
        found.first = None if found.leaves or found.random else outcome.first
        found.nonfinite = outcome.nonfinite


def _leaves_that_matter(outcome: StepOutcome, *, is_first: bool) -> list[Leaf]:
    """Return the leaves that end the search: those read before the first divergence, data before parameters."""
    leaves = outcome.leaves[: outcome.num_leaves_before_first] if outcome.first else outcome.leaves
    if not is_first:
        return [leaf for leaf in leaves if not leaf.drifted]
    leaves = [leaf for leaf in leaves if leaf.call.row.phase == "forward"]
    return [leaf for leaf in leaves if leaf.role == "data"] or leaves


def _keep_operators(found: Evidenced, new: list[OperatorDiff], limit: int) -> None:
    room = limit - len(found.operators)
    if len(new) > room:
        new = [diff for diff in new if diff.status not in {"agree", "not-compared"}][:room]
    found.operators.extend(new)
