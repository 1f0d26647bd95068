"""Builds a case from a recorded row: the calculation, the operators before it, its error, the rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from jumar.base.errors import InputError
from jumar.comparison.replay.engine import Engine, inputs_of
from jumar.comparison.replay.figures import to_array
from jumar.comparison.replay.judge import natural_scales, own_error, with_control
from jumar.comparison.replay.rebuilt.execute import Inputs, run
from jumar.comparison.replay.rebuilt.memory import Array
from jumar.comparison.replay.rebuilt.place import OWN, TRUTH, Place
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.comparison.repro.case import Case, Link, Step
from jumar.recording import CallRow, TensorRow
from jumar.recording.reader import RecordingLike


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


_SHORT = "{} of {} operators before it could not be taken in: not recorded, random, or there are no more"


def chain(recording: RecordingLike, last: Inputs, num_producers: int) -> tuple[tuple[Step, ...], str]:
    """Return the steps of a case, at most `num_producers` before the last, and a note if fewer were found.

    A producer counts only when the recorded values of its output are, bit for bit, those that are read: memory that
    was written in between breaks the chain. The nearest producers are taken first.
    """
    rows = [row for row in recording.rows(last.row.step, last.row.rank) if row.kind == "op"]
    found: dict[int, Inputs] = {last.row.seq: last}
    links: dict[int, dict[str, tuple[int, str]]] = {last.row.seq: {}}
    waiting: list[tuple[int, TensorRow, Inputs]] = [(last.row.seq, t, last) for t in last.invocation.tensors]
    while waiting and len(found) <= num_producers:
        candidates = [(_producer(recording, rows, reader, tensor), reader, tensor) for _, tensor, reader in waiting]
        known = [(made, reader, tensor) for made, reader, tensor in candidates if made is not None]
        if not known:
            break
        (inputs, output), reader, tensor = max(known, key=lambda item: item[0][0].row.seq)
        waiting = [item for item in waiting if not (item[2] is reader and item[1] is tensor)]
        links[reader.row.seq][tensor.name] = (inputs.row.seq, output)
        if inputs.row.seq not in found:
            found[inputs.row.seq] = inputs
            links[inputs.row.seq] = {}
            waiting += [(inputs.row.seq, source, inputs) for source in inputs.invocation.tensors]
    _link_known(found, links, recording, rows)
    order = sorted(found)
    steps = tuple(
        Step(
            inputs=found[seq],
            links={name: Link(step=order.index(made), output=output) for name, (made, output) in links[seq].items()},
        )
        for seq in order
    )
    missing = num_producers + 1 - len(found)
    return steps, _SHORT.format(missing, num_producers) if missing > 0 else ""


def _link_known(
    found: dict[int, Inputs],
    links: dict[int, dict[str, tuple[int, str]]],
    recording: RecordingLike,
    rows: Sequence[CallRow],
) -> None:
    """Link inputs that a step of the chain makes, though the chain was full when they were looked at."""
    inside = [row for row in rows if row.seq in found]
    for seq, inputs in found.items():
        for tensor in inputs.invocation.tensors:
            if tensor.name not in links[seq] and (made := _producer(recording, inside, inputs, tensor)) is not None:
                links[seq][tensor.name] = (made[0].row.seq, made[1])


def _producer(
    recording: RecordingLike, rows: Sequence[CallRow], reader: Inputs, tensor: TensorRow
) -> tuple[Inputs, str] | None:
    """Return the latest row before `reader` whose output is `tensor`, with the name of that output."""
    for row in reversed(rows):
        if row.seq >= reader.row.seq or not tensor.storage:
            continue
        output = next((out for out in row.outputs if out.storage == tensor.storage and _same(out, tensor)), None)
        if output is None:
            continue
        try:
            inputs = inputs_of(recording, row)
        except NotReplayable:
            return None
        made = inputs.arrays.get(output.name)
        is_whole = not inputs.only or output.name in inputs.only
        equal = made is not None and _equal(made, reader.arrays[tensor.name])
        return (inputs, output.name) if equal and is_whole else None
    return None


def _same(output: TensorRow, tensor: TensorRow) -> bool:
    first = output.shape, output.dtype, output.storage_offset, output.stride
    return first == (tensor.shape, tensor.dtype, tensor.storage_offset, tensor.stride)


def _equal(first: Array, second: Array) -> bool:
    floating = first.dtype.kind in "fc"
    return bool(np.array_equal(first, second, equal_nan=floating))
