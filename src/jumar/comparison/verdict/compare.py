"""Compares two recordings: settings, ranks, steps, data, parameters, then the first operator that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from jumar.base.errors import RecordingError, UsageError
from jumar.base.process.collector import collector_at_rest
from jumar.comparison.align.align import align_step
from jumar.comparison.align.steps import find_offset, losses_alike, offset_shift, step_pairs
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.outputs import reduced_products
from jumar.comparison.measure.loading import Load, tensor_loader
from jumar.comparison.measure.tolerance import NoiseFloor
from jumar.comparison.model.options import CompareOptions
from jumar.comparison.model.results import Comparison
from jumar.comparison.model.settings import setting_differences
from jumar.comparison.verdict.conclusion import conclude
from jumar.comparison.verdict.long_runs import judged_with, losses_of_all, take_drift
from jumar.comparison.walk.evidence import Evidenced, ended
from jumar.comparison.walk.losses import compare_losses, unjudged_after
from jumar.comparison.walk.rank_walk import RankWalk
from jumar.comparison.walk.skipped_updates import benign_skip
from jumar.comparison.walk.step_walk import StepOutcome, compare_step
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import Values

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
    if {found.reference.info.framework, found.target.info.framework} != {"torch"}:
        found.reference, found.target = _in_common_words(found.reference, found.target)
    _check_ranks(found, options.rank_pairs)
    _note_coverage(found)
    if options.rank_pairs and _is_one_recording(found):
        from jumar.comparison.walk.ranks import compare_ranks_of_one

        compare_ranks_of_one(found, options)
        return conclude(found)
    found.settings = setting_differences(found.reference.info, found.target.info)
    pairs = options.rank_pairs or _common_ranks(found)
    if floors:
        found.floor = measure_floor(
            found.reference,
            [opened(floor) for floor in floors],
            lambda pair: tensor_loader(pair.reference, pair.target),
        )
    if len(pairs) > 1:
        _compare_ranks(found, pairs, options, on_progress)
    else:
        for pair in pairs:
            _compare_rank(found, pair, options, on_progress)
    if options.rank_pairs:  # of ranks that are named only these count
        found.shares["ranks"] = [len(pairs)] * 3
    if len(pairs) > 1 and found.steps:
        from jumar.comparison.walk.ranks import compare_ranks_of_both

        compare_ranks_of_both(found, [of_reference for of_reference, _ in pairs])
    return conclude(found)


def _in_common_words(reference: RecordingLike, target: RecordingLike) -> tuple[RecordingLike, RecordingLike]:
    from jumar.comparison.model.frameworks.words import in_common_words

    return in_common_words(reference, target), in_common_words(target, reference)


def _check_ranks(found: Evidenced, pairs: Sequence[RankPair]) -> None:
    for side, recording, named in (
        ("reference", found.reference, {reference for reference, _ in pairs}),
        ("target", found.target, {target for _, target in pairs}),
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
    reference, target = set(found.reference.ranks), set(found.target.ranks)
    if reference != target:
        sentence = f"ranks {sorted(reference ^ target)} are in one recording only and are not compared"
        found.notes.append(sentence)
        found.absent.append(sentence)
    common = sorted(reference & target)
    found.shares["ranks"] = [len(common), len(reference), len(target)]
    return [(rank, rank) for rank in common]


def _steps_of(
    found: Evidenced, target: RecordingLike, ranks: RankPair, options: CompareOptions
) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of steps to compare, and the offset between their numbers."""
    of_reference, of_target = found.reference.steps(ranks[0]), target.steps(ranks[1])
    offset = options.offset
    if offset is None:
        offset = find_offset(found.reference.losses(ranks[0]), target.losses(ranks[1]))
    first, end = options.steps or (0, 1 << 62)
    return [pair for pair in step_pairs(of_reference, of_target, offset) if first <= pair[0] < end], offset


def _note_steps(found: Evidenced, ranks: RankPair, offset: int, options: CompareOptions) -> None:
    first, end = options.steps or (0, 1 << 62)
    sides = (
        (found.reference, ranks[0], {step for step in found.reference.steps(ranks[0]) if first <= step < end}, 0),
        (
            found.target,
            ranks[1],
            {step - offset for step in found.target.steps(ranks[1]) if first <= step - offset < end},
            offset,
        ),
    )
    for number, (_, _, steps, _) in enumerate(sides):
        found.shares["steps"][number + 1] += len(steps)
    only = [sides[0][2] - sides[1][2], sides[1][2] - sides[0][2]]
    if any(only):
        found.notes.append(
            f"rank {ranks[0]}: steps {_brief(only[0] | only[1])} are in one recording only and are not compared"
        )
    for side, steps, (other, rank, _, shift) in zip(("reference", "target"), only, reversed(sides), strict=True):
        missing = {step for step in steps if not offset and made_none(other, rank, step + shift)}
        if missing:
            plural = "step" if len(missing) == 1 else "steps"
            found.absent.append(f"only the {side} has {plural} {_brief(missing)}")
    if offset:
        found.correspondence.shifts.append(offset_shift(ranks[0], offset))


def made_none(run: RecordingLike, rank: int, step: int) -> bool:
    """Return whether a run that does not hold a step did not make it, as far as is known: it was not asked to record
    other steps only, no budget left the step out, and the run was not stopped before it, nor does it still go on.

    The second step of a checkpoint is the state of an optimizer, which need not be there.
    """
    first, end = run.info.steps or (0, 1 << 62)
    if not first <= step < end:
        return False
    ended = run.ends.get(rank)
    if ended is None:  # dumps of other tools have no end
        return bool(run.info.environment.get("format", "checkpoint") != "checkpoint")
    if any("budget" in sentence for sentence in ended.not_covered):
        return False
    return ended.status != "stopped"


def _brief(steps: set[int]) -> str:
    ordered = sorted(steps)
    return str(ordered) if len(ordered) <= 6 else f"{ordered[0]} to {ordered[-1]} ({len(ordered)})"


def _compare_ranks(
    found: Evidenced, pairs: Sequence[RankPair], options: CompareOptions, on_progress: Progress | None
) -> None:
    """Compare each rank and keep the difference that comes first in the flow of data."""
    from jumar.comparison.walk.earliest import earliest, put, take

    causes = []
    for pair in pairs:
        _compare_rank(found, pair, options, on_progress)
        causes.append(take(found, pair))
    put(found, earliest(found, causes))


def _compare_rank(found: Evidenced, ranks: RankPair, options: CompareOptions, on_progress: Progress | None) -> None:
    steps, offset = _steps_of(found, found.target, ranks, options)
    _note_steps(found, ranks, offset, options)
    walk = RankWalk(found.reference, found.target, ranks, options, floor=found.floor)
    for number, (step, other) in enumerate(steps):
        apart = benign_skip(found.skipped, ranks[0]) is not None
        if apart or (ended(found) and not options.all_steps):
            found.notes.append(
                f"rank {ranks[0]}: the operators of steps {step} to {steps[-1][0]} were not compared after that"
            )
            break
        walk.take_into(found, step, other, is_first=number == 0)
        found.shares["steps"][0] += 1
        if on_progress is not None:
            on_progress(number + 1, len(steps))
    drift = take_drift(found, ranks, offset, options.steps)
    reference = losses_of_all(found.reference.losses(ranks[0]), drift, 0)
    target = losses_of_all([(step - offset, loss) for step, loss in found.target.losses(ranks[1])], drift, 1)
    cut = next((shift.counts for shift in found.correspondence.shifts if shift.kind == "micro-steps"), (1, 1))
    losses = compare_losses(reference, losses_alike(reference, target, cut), ranks[0], found.coarsest)
    losses = unjudged_after(losses, benign_skip(found.skipped, ranks[0]))
    found.losses.extend(judged_with(found, losses, drift))


def measure_floor(
    reference: RecordingLike, floors: Sequence[RecordingLike], loader: Callable[[Evidenced], Load]
) -> NoiseFloor:
    """Return the floor that further recordings of the reference show together; one step is in memory at a time.

    Raises RecordingError when one of them is not a run of the reference: it has no step in common with it, read
    other data or parameters, or drew other random numbers, so that its differences are no noise.
    """
    floor = NoiseFloor()
    for recording in floors:
        pair = Evidenced(reference, recording)
        load = loader(pair)
        compared = sum(_add_rank(floor, pair, rank, load) for rank in sorted({*reference.ranks} & {*recording.ranks}))
        if not compared:
            raise RecordingError(
                f"the noise floor {recording.path} has no step in common with the reference. Record the same steps."
            )
    return floor


def _add_rank(floor: NoiseFloor, pair: Evidenced, rank: int, load: Load) -> int:
    """Add the differences of one rank to the floor; return the number of steps compared."""
    memory = Memory(reduced=reduced_products(pair.reference.info, pair.target.info))
    steps = sorted({*pair.reference.steps(rank)} & {*pair.target.steps(rank)})
    for step in steps:
        reference, target = pair.reference.rows(step, rank), pair.target.rows(step, rank)
        memory.begin_step(reference, target)
        outcome = compare_step(align_step(reference, target), load, tolerance_scale=1.0, memory=memory)
        _must_be_the_same_run(pair.target, outcome, is_first=step == steps[0])
        floor.add(outcome.operators)
    return len(steps)


def _must_be_the_same_run(recording: RecordingLike, outcome: StepOutcome, *, is_first: bool) -> None:
    leaf = next((leaf for leaf in outcome.leaves if is_first or not leaf.drifted), None)
    if leaf is not None and leaf.call.row.phase == "forward":
        raise RecordingError(
            f"the noise floor {recording.path} is of another run: {leaf.role} {leaf.diff.name} of {leaf.call.row.name} "
            "differs from the reference's. Record the reference's script again with the same seeds and data."
        )
    if outcome.random is not None:
        raise RecordingError(
            f"the noise floor {recording.path} is of another run: {outcome.random.name} drew other random numbers "
            "than in the reference. Record the reference's script again with the same seeds."
        )


def common_values(reference: Values, target: Values) -> str:
    """Return by what two recordings with different values are compared, in one sentence; empty for the same values."""
    both = {reference, target}
    if len(both) == 1:
        return ""
    if both & {"none", "hash"}:
        what = "they have no values in common"
    elif both == {"sketch", "tensors"}:
        what = "sketches are compared, those of whole tensors computed for it"
    else:
        what = "statistics are compared"
    return f"the reference was recorded with values {reference}, the target with {target}: {what}"
