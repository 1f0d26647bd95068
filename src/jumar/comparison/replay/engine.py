"""Replays the operators of a recording: `replay`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from jumar.base.errors import DeviceError, RecordingError
from jumar.base.process.threads import threads
from jumar.comparison.measure.arrays import distance
from jumar.comparison.replay.figures import relative, to_array
from jumar.comparison.replay.judge import exceeds, own_error, with_control
from jumar.comparison.replay.rebuilt.execute import Inputs, run
from jumar.comparison.replay.rebuilt.invocation import invocation_of
from jumar.comparison.replay.rebuilt.memory import Array
from jumar.comparison.replay.rebuilt.place import OWN, TRUTH, Place, chip_of, of_vendor, place_of, with_threads_of
from jumar.comparison.replay.rebuilt.randomness import without_draws
from jumar.comparison.replay.rebuilt.refusal import Cause, NotReplayable
from jumar.comparison.replay.results import On, OwnError, Replayed, Verdict
from jumar.comparison.replay.selection import Selection, check, other_arguments, partners, with_tensors_of
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

SURELY_MORE = 2.0
"""An operator is at fault only if its own error is more than this multiple of the reference's own."""

SERIAL = 1 << 22
"""Elements of a call up to which one thread judges it: beside other programs, sharing out passes over so few of them
takes ten times as long."""

Progress = Callable[[int, int], None]


def replay(
    recording: str | Path | RecordingLike,
    keys: Sequence[str] | None = None,
    on: On = "cpu64",
    *,
    reference: str | Path | RecordingLike | None = None,
    steps: tuple[int, int] | None = None,
    soc: str = "",
    on_progress: Progress | None = None,
) -> list[Replayed]:
    """Re-execute recorded operators from their recorded inputs, in float64 on the CPU and, if asked, on a device.

    `keys` are row keys or globs over row keys or operator names, with a step prefix if wanted (`3:op/forward/*`);
    None takes every operator. With `reference`, each operator also has the reference's own error
    and what it inherited. `soc` is the chip of the emulated NPU, by default the recorded one; `on_progress` is
    called with the operators done and to do.

    Raises RecordingError when a recording cannot be read or holds no tensors, DeviceError when the device cannot be
    had here, UsageError when `keys` match nothing.
    """
    target = opened(recording)
    other = opened(reference) if reference is not None else None
    selection = Selection(target, keys, steps)
    engine = Engine(target, other, on, soc)
    found: list[Replayed] = []
    total = len(selection)
    for step, rank, rows in selection:
        for row in engine.step(step, rank, rows):
            found.append(row)
            if on_progress is not None:
                on_progress(len(found), total)
    return found


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact outputs of a call, and how they were computed."""

    outputs: dict[str, torch.Tensor]
    place: Place


class Engine:
    """Replays rows of one recording, beside another one if there is one; a step is in memory at a time."""

    def __init__(
        self, target: RecordingLike, reference: RecordingLike | None = None, on: On = "cpu64", soc: str = ""
    ) -> None:
        self._target = target
        self._reference = reference
        self._on: On = on
        self._chip = soc or chip_of(target.info)
        place = place_of(on, self._chip)
        self._place = with_threads_of(place, target.info) if place is not None else None

    def step(self, step: int, rank: int, rows: Sequence[CallRow]) -> Iterator[Replayed]:
        """Replay these rows of one step and rank, in order."""
        pairs: Mapping[int, CallRow] = {}
        if self._reference is not None and step in self._reference.steps(rank):
            pairs = partners(self._reference.rows(step, rank), self._target.rows(step, rank))
        for row in rows:
            yield self.row(row, pairs.get(row.seq))

    def row(self, row: CallRow, partner: CallRow | None = None) -> Replayed:
        """Replay one row, and the reference's row that belongs to it."""
        with threads(1) if _num_elements(row) <= SERIAL else nullcontext():
            return self._replayed(row, partner)

    def _replayed(self, row: CallRow, partner: CallRow | None) -> Replayed:
        try:
            inputs = inputs_of(self._target, row)
            truth, own = self.judged(inputs)
        except NotReplayable as refusal:
            return Replayed(row=row, verdict="not replayable", on=self._on, note=str(refusal), cause=refusal.cause)
        replayed = Replayed(
            row=row,
            verdict="own fault" if exceeds(own) else "agrees",
            on=self._on,
            own=own,
            precision=truth.place.precision,
            note=_note(own, truth),
        )
        replayed = self._on_device(replayed, inputs, truth)
        return self._beside(replayed, inputs, truth, partner) if partner is not None else replayed

    def judged(self, inputs: Inputs) -> tuple[Truth, OwnError]:
        """Return the exact outputs of a call and the error of the recorded ones. Raises NotReplayable."""
        truth = self._truth(inputs)
        return truth, self._own(inputs, truth)

    def _truth(self, inputs: Inputs) -> Truth:
        """Run in float64. Without a float64 kernel the operator runs in float32, and without that in its own dtypes."""
        first: NotReplayable | None = None
        for precision in ("float64", "float32", "own"):
            place = self._where(inputs, replace(TRUTH, precision=precision))
            try:
                return Truth(run(inputs, place), place)
            except NotReplayable as refusal:
                if refusal.cause != "no kernel":
                    raise
                first = first or refusal
        assert first is not None
        raise first

    def _where(self, inputs: Inputs, place: Place) -> Place:
        """Return the place; for an operator of the vendor's the emulated NPU."""
        if not inputs.invocation.name.startswith("npu::"):
            return place
        try:
            return of_vendor(place, self._chip)
        except DeviceError as error:
            raise NotReplayable("no kernel", str(error)) from error

    def _own(self, inputs: Inputs, truth: Truth) -> OwnError:
        own = own_error(inputs.row, inputs.arrays, truth.outputs)
        if not own.outputs:
            raise NotReplayable(*_why_none(inputs))
        if not exceeds(own) or truth.place.precision == "own":
            return own
        try:
            control = run(inputs, self._where(inputs, OWN))
        except NotReplayable:
            return own
        arrays = {name: to_array(tensor) for name, tensor in control.items()}
        return with_control(own, own_error(inputs.row, arrays, truth.outputs))

    def _on_device(self, replayed: Replayed, inputs: Inputs, truth: Truth) -> Replayed:
        if self._place is None:
            return replayed
        place = self._where(inputs, self._place) if self._place.device == "cpu" else self._place
        try:
            found = run(inputs, place)
        except NotReplayable as refusal:
            return replace(replayed, note="; ".join(filter(None, (replayed.note, f"on {self._on}: {refusal}"))))
        arrays = {name: to_array(tensor) for name, tensor in found.items()}
        return replace(
            replayed,
            on_error=own_error(inputs.row, arrays, truth.outputs),
            on_difference=own_error(inputs.row, inputs.arrays, found),
        )

    def _beside(self, replayed: Replayed, inputs: Inputs, truth: Truth, partner: CallRow) -> Replayed:
        """Add the figures of the same call in the reference's recording."""
        assert self._reference is not None
        arguments = other_arguments(partner, inputs.row)
        replayed = replace(replayed, reference_row=partner, arguments=arguments)
        try:
            of_reference = inputs_of(self._reference, partner)
            exact = self._truth(of_reference)
            reference_own = own_error(partner, of_reference.arrays, exact.outputs)
            swapped = with_tensors_of(inputs, of_reference)
            between = self._truth(swapped) if swapped is not None else None
        except NotReplayable as refusal:
            return replace(replayed, note="; ".join(filter(None, (replayed.note, f"reference: {refusal}"))))
        replayed = replace(
            replayed,
            reference_own=reference_own,
            inherited=_apart(between.outputs, truth.outputs) if between is not None else None,
            by_arguments=_apart(exact.outputs, between.outputs) if between is not None and arguments else None,
        )
        return replace(replayed, verdict=_verdict(replayed))


def _num_elements(row: CallRow) -> int:
    return sum(math.prod(tensor.shape) for tensor in (*row.inputs, *row.outputs))


def inputs_of(recording: RecordingLike, row: CallRow) -> Inputs:
    """Return the call of a row with its arrays. Raises NotReplayable when the recording does not hold them."""
    check(row)
    invocation, only = without_draws(invocation_of(row), row)
    try:
        arrays: Mapping[str, Array] = recording.tensors(row)
    except RecordingError as error:
        if invocation.tensors:
            raise NotReplayable("not recorded", "its tensors were not recorded (--tensors-of)") from error
        raise NotReplayable("not recorded", "its outputs were not recorded") from error
    return Inputs(row, invocation, arrays, only)


def _why_none(inputs: Inputs) -> tuple[Cause, str]:
    if any(tensor.name in inputs.arrays for tensor in inputs.row.outputs):
        return "other", f"{inputs.row.name} has no unique result: the order or signs of its outputs are free"
    return "not recorded", f"{inputs.row.name}: none of its outputs was recorded with values"


def _apart(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> float | None:
    """Return the greatest relative distance of the outputs that both have; None when there is none."""
    found = [
        relative(distance(to_array(tensor), to_array(second[name])))
        for name, tensor in first.items()
        if name in second and second[name].shape == tensor.shape and tensor.numel()
    ]
    return max(found, default=None)


def _verdict(replayed: Replayed) -> Verdict:
    worst = replayed.own.worst if replayed.own is not None else None
    tolerance = worst.tolerance if worst is not None else 0.0
    ratio = replayed.ratio
    if replayed.verdict == "own fault" and (ratio is None or ratio > SURELY_MORE):
        return "own fault"
    if (replayed.by_arguments or 0.0) > tolerance:
        return "other arguments"
    return "inherited" if (replayed.inherited or 0.0) > tolerance else "agrees"


def _note(own: OwnError, truth: Truth) -> str:
    notes = []
    if truth.place.precision != "float64":
        notes.append(f"no float64 kernel: compared with the CPU in {truth.place.precision} precision")
    if any(output.saturated for output in own.outputs):
        notes.append("saturated: the exact result is beyond the range of the dtype")
    return "; ".join(notes)
