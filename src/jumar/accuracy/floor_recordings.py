"""Measures the noise floor of a reference from further recordings of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jumar.accuracy.floors import NoiseFloor
from jumar.accuracy.source import RecordingLike
from jumar.accuracy.walk import StepOutcome
from jumar.errors import RecordingError

CompareStep = Callable[[RecordingLike, int, int], StepOutcome]
"""Compares one step of one rank of the reference with the floor recording given."""


def measure_floor(
    floors: Sequence[RecordingLike],
    ranks: Sequence[int],
    steps: Callable[[RecordingLike, int], Sequence[int]],
    compare_step: CompareStep,
) -> NoiseFloor:
    """Return the floor that the recordings show together.

    Raises RecordingError when one of them is not a run of the reference: it read other data or parameters,
    or drew other random numbers, so that its differences are no noise.
    """
    floor = NoiseFloor()
    for recording in floors:
        compared = 0
        for rank in ranks:
            for number, step in enumerate(steps(recording, rank)):
                outcome = compare_step(recording, step, rank)
                _must_be_the_same_run(recording, outcome, is_first=number == 0)
                floor.add(outcome.operators)
                compared += len(outcome.operators)
        if not compared:
            raise RecordingError(
                f"the noise floor {recording.path} has no step in common with the reference. Record the same steps."
            )
    return floor


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
