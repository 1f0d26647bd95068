"""Compares two recordings: settings, ranks, steps, data, parameters, then the first operator that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jumar.accuracy.collect import ended
from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.floor_recordings import measure_floor
from jumar.accuracy.losses import compare_losses, unjudged_after
from jumar.accuracy.measure import common_values
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.rank_walk import RankWalk, tensor_loader
from jumar.accuracy.ranks import compare_ranks, only_in_target
from jumar.accuracy.results import Comparison
from jumar.accuracy.settings import setting_differences
from jumar.accuracy.skipped_updates import benign_skip
from jumar.accuracy.source import RecordingLike, opened
from jumar.accuracy.steps import find_offset, losses_alike, offset_shift, step_pairs
from jumar.accuracy.verdict import conclude
from jumar.collector import collector_at_rest
from jumar.errors import UsageError

Progress = Callable[[int, int], None]
RankPair = tuple[int, int]


@collector_at_rest()
def compare(
    reference: str | Path | RecordingLike,
    target: str | Path | RecordingLike,
    *,
    floors: Sequence[str | Path | RecordingLike] = (),
    options: CompareOptions | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """Compare two recordings, given as folders or opened.

    One step is held in memory at a time; `on_progress` is called with the steps done and to do. `floors` are
    further recordings of the reference made under other conditions, from which the noise floor is measured.
    What a recording lacks (steps, ranks, values) is said in the result. Raises RecordingError when one is
    missing, foreign, of a newer schema, or as a floor not of the reference, UsageError when a rank that the options
    name is in neither.
    """
    options = options or CompareOptions()
    found = Evidenced(opened(reference), opened(target))
    _check_ranks(found, options.rank_pairs)
    _note_coverage(found)
    if options.rank_pairs and _is_one_recording(found):
        _compare_ranks_of_one(found, options)
        return conclude(found)
    found.settings = setting_differences(found.reference.info, found.target.info)
    pairs = options.rank_pairs or _common_ranks(found)
    if floors:
        found.floor = measure_floor(
            found.reference,
            [opened(floor) for floor in floors],
            lambda pair: tensor_loader(pair.reference, pair.target),
        )
    for pair in pairs:
        _compare_rank(found, pair, options, on_progress)
    _compare_ranks_of_both(found, [mine for mine, _ in pairs])
    without = found.counts["not-compared"]
    if without > found.counts.total() / 2:
        found.notes.append(
            f"{without:,} of {found.counts.total():,} pairs of calls hold no values that could be compared"
        )
    return conclude(found)


def _check_ranks(found: Evidenced, pairs: Sequence[RankPair]) -> None:
    for side, recording, named in (
        ("reference", found.reference, {mine for mine, _ in pairs}),
        ("target", found.target, {theirs for _, theirs in pairs}),
    ):
        missing = sorted(named - set(recording.ranks))
        if missing:
            raise UsageError(
                f"the {side} {recording.path} holds no rank {missing[0]}; name one of {sorted(recording.ranks)}."
            )


def _note_coverage(found: Evidenced) -> None:
    for side, recording in (("reference", found.reference), ("target", found.target)):
        found.notes.extend(f"{side}: {warning}" for warning in recording.warnings)
        for end in recording.ends.values():
            found.notes.extend(f"{side}, rank {end.rank}, not covered: {text}" for text in end.not_covered)
    found.notes.extend(filter(None, [common_values(found.reference.info.values, found.target.info.values)]))


def _is_one_recording(found: Evidenced) -> bool:
    return found.reference is found.target or found.reference.path.resolve() == found.target.path.resolve()


def _common_ranks(found: Evidenced) -> list[RankPair]:
    mine, theirs = set(found.reference.ranks), set(found.target.ranks)
    if mine != theirs:
        found.notes.append(f"ranks {sorted(mine ^ theirs)} are in one recording only and are not compared")
    return [(rank, rank) for rank in sorted(mine & theirs)]


def _steps_of(
    found: Evidenced, target: RecordingLike, ranks: RankPair, options: CompareOptions
) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of steps to compare, and the offset between their numbers."""
    mine, theirs = found.reference.steps(ranks[0]), target.steps(ranks[1])
    offset = options.offset
    if offset is None:
        offset = find_offset(found.reference.losses(ranks[0]), target.losses(ranks[1]))
    first, end = options.steps or (0, 1 << 62)
    return [pair for pair in step_pairs(mine, theirs, offset) if first <= pair[0] < end], offset


def _note_steps(found: Evidenced, ranks: RankPair, offset: int) -> None:
    mine, theirs = set(found.reference.steps(ranks[0])), {step - offset for step in found.target.steps(ranks[1])}
    if mine != theirs:
        found.notes.append(
            f"rank {ranks[0]}: steps {_brief(mine ^ theirs)} are in one recording only and are not compared"
        )
    if offset:
        found.correspondence.shifts.append(offset_shift(ranks[0], offset))


def _brief(steps: set[int]) -> str:
    ordered = sorted(steps)
    return str(ordered) if len(ordered) <= 6 else f"{ordered[0]} to {ordered[-1]} ({len(ordered)})"


def _compare_rank(found: Evidenced, ranks: RankPair, options: CompareOptions, on_progress: Progress | None) -> None:
    steps, offset = _steps_of(found, found.target, ranks, options)
    _note_steps(found, ranks, offset)
    walk = RankWalk(found.reference, found.target, ranks, options, floor=found.floor)
    for number, (step, other) in enumerate(steps):
        apart = benign_skip(found.skipped, ranks[0]) is not None
        if apart or (ended(found) and not options.all_steps):
            found.notes.append(
                f"rank {ranks[0]}: the operators of steps {step} to {steps[-1][0]} were not compared after that"
            )
            break
        walk.take_into(found, step, other, is_first=number == 0)
        if on_progress is not None:
            on_progress(number + 1, len(steps))
    mine = found.reference.losses(ranks[0])
    theirs = [(step - offset, loss) for step, loss in found.target.losses(ranks[1])]
    cut = next((shift.counts for shift in found.correspondence.shifts if shift.kind == "micro-steps"), (1, 1))
    losses = compare_losses(mine, losses_alike(mine, theirs, cut), ranks[0], found.coarsest)
    found.losses.extend(unjudged_after(losses, benign_skip(found.skipped, ranks[0])))


def _compare_ranks_of_one(found: Evidenced, options: CompareOptions) -> None:
    """Compare ranks of one recording, each step until one differs, with what all ranks must hold in common."""
    found.correspondence.ranks_only = True
    first, end = options.steps or (0, 1 << 62)
    for pair in options.rank_pairs:
        common = sorted(set.intersection(*(set(found.reference.steps(rank)) for rank in pair)))
        for step in (step for step in common if first <= step < end):
            found.steps.append(step)
            found.correspondence.ranks.extend(compare_ranks(found.reference, "target", pair, step))
            if any(diff.kind != "data" for diff in found.correspondence.ranks) and not options.all_steps:
                break


def _compare_ranks_of_both(found: Evidenced, ranks: Sequence[int]) -> None:
    """Look for what the target's ranks do not hold in common and the reference's do, in the first common step."""
    if len(ranks) < 2 or not found.steps:
        return
    step = found.steps[0]
    for other in ranks[1:]:
        pair = ranks[0], other
        mine = compare_ranks(found.reference, "reference", pair, step)
        theirs = compare_ranks(found.target, "target", pair, step)
        found.correspondence.ranks.extend(only_in_target(mine, theirs))
