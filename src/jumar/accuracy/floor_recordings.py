"""Measures the noise floor of a reference from further recordings of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jumar.accuracy.align import align_step
from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.floors import NoiseFloor
from jumar.accuracy.judge import Load
from jumar.accuracy.memory import Memory
from jumar.accuracy.precision import reduced_products
from jumar.accuracy.source import RecordingLike
from jumar.accuracy.walk import StepOutcome, compare_step
from jumar.errors import RecordingError


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
        mine, theirs = pair.reference.rows(step, rank), pair.target.rows(step, rank)
        memory.begin_step(mine, theirs)
        outcome = compare_step(align_step(mine, theirs), load, tolerance_scale=1.0, memory=memory)
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
