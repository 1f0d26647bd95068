"""From a recorded row to a case: what is calculated, how exact it was, what rounding explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from jumar.accuracy.replay.engine import Engine, inputs_of
from jumar.accuracy.replay.execute import Inputs, run
from jumar.accuracy.replay.figures import to_array
from jumar.accuracy.replay.judge import natural_scales, own_error, with_control
from jumar.accuracy.replay.memory import Array
from jumar.accuracy.replay.place import OWN, TRUTH, Place
from jumar.accuracy.replay.refusal import NotReplayable
from jumar.accuracy.repro.case import Case, Step
from jumar.accuracy.repro.context import chain
from jumar.accuracy.source import RecordingLike
from jumar.errors import InputError
from jumar.recording import CallRow


def build(recording: RecordingLike, row: CallRow, context: int = 0) -> Case:
    """Return the case of `row` with `context` producers before it. Raises InputError when it cannot be replayed."""
    try:
        inputs = inputs_of(recording, row)
        if context:
            steps, note = chain(recording, inputs, context)
            case = of_steps(recording, steps)
            return case.noted(note) if note else case
        return of_one(recording, inputs)
    except NotReplayable as refusal:
        raise InputError(
            f"{row.key} in step {row.step} cannot be executed outside of its run: {refusal}. Choose another operator."
        ) from refusal


def of_one(recording: RecordingLike, inputs: Inputs) -> Case:
    """Return the case of one operator. Raises NotReplayable."""
    truth, own = Engine(recording).judged(inputs)
    vendors = truth.place.exact
    return Case(
        info=recording.info,
        steps=(Step(inputs=inputs, links={}),),
        own=own,
        natural=natural_scales(inputs.row),
        precision=truth.place.precision,
        exact={name: to_array(tensor) for name, tensor in truth.outputs.items()} if vendors else None,
    )


def of_steps(recording: RecordingLike, steps: tuple[Step, ...]) -> Case:
    """Return the case of a chain; what rounding explains at its end is measured with the CPU's kernels."""
    if len(steps) == 1:
        return of_one(recording, steps[0].inputs)
    exact = run_chain(steps, TRUTH)
    last = steps[-1].inputs
    own = own_error(last.row, last.arrays, exact)
    control = own_error(last.row, {k: to_array(v) for k, v in run_chain(steps, OWN).items()}, exact)
    return Case(
        info=recording.info,
        steps=steps,
        own=with_control(own, control),
        natural=natural_scales(last.row),
        precision="float64",
    )


def run_chain(steps: tuple[Step, ...], place: Place) -> dict[str, torch.Tensor]:
    """Return the outputs of the last step, each step reading what those before it made at `place`."""
    made: list[dict[str, torch.Tensor]] = []
    for step in steps:
        linked = {name: made[link.step][link.output] for name, link in step.links.items()}
        made.append(run(_fed(step.inputs, linked), place))
    return made[-1]


def _fed(inputs: Inputs, linked: Mapping[str, torch.Tensor]) -> Inputs:
    """Return the call with tensors that were calculated instead of the recorded ones."""
    if not linked:
        return inputs
    arrays: dict[str, Array] = {**inputs.arrays, **{name: to_array(tensor) for name, tensor in linked.items()}}
    return replace(inputs, arrays=arrays)
