"""Follows the values of one step from call to call by their storage, on both sides.

A difference in an input must come from somewhere: from a compared output (then its size is known),
from a call that only one side has or whose output was not recorded (a suspect), or from outside the
step (a leaf: data, a parameter, a state).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from jumar.comparison.measure.distances import Measure
from jumar.comparison.measure.scales import elements, greatest_of, scale
from jumar.comparison.measure.tolerance import error_model, rounding
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import ADOPTING, OVERWRITING, TRANSPORT, UNINITIALISED, VIEWS
from jumar.operators import is_in_place
from jumar.recording.schema import TensorRow

PEAK_OF_NOISE = 8.0
"""Greatest of many normal draws in multiples of their standard deviation (1e15 draws stay below)."""

UNSEEN_GROWTH = 2.0
"""By how much a call that cannot be judged may let an error grow."""

COLLECTIVES = ("c10d::", "_c10d_functional::")
"""Operators whose results arrive later, in their arguments."""

Side = Literal["reference", "target"]


@dataclass(slots=True)
class Trace:
    """What is known about the values in one storage of one side."""

    noise: float = 0.0
    """Absolute error of one element that compared calls account for."""
    at_least: float = 0.0
    """A lower bound of `peak`."""
    leaf: bool = False
    """Came from outside the step and has not been compared yet."""
    garbage: bool = False
    """Uninitialised memory."""
    left_by: tuple[Call, ...] = ()
    """Of a leaf: the calls that wrote it without returning it, and by how much it may differ for that (relative)."""
    allowed: float = 0.0
    suspects: tuple[Call, ...] = ()
    """Calls not judged, between the last judged ones and here."""
    tolerated: Callable[[], float] | None = None
    """Gives what the tolerance of its maker allows for, where nobody has asked yet; None where `at_least` has it."""

    @property
    def peak(self) -> float:
        """Absolute error of the worst element that compared calls account for."""
        if self.tolerated is not None:
            self.at_least, self.tolerated = max(self.at_least, self.tolerated()), None
        return self.at_least


class Tolerance(Protocol):
    """A pair of calls that agrees."""

    def allowed(self, found: Measure) -> float:
        """Return the greatest absolute error of an element that the tolerance of an output allows for."""


class Flow:
    """Traces by storage number. A step whose rows number no storages has no flow (`enabled` is False)."""

    def __init__(self, reference: Sequence[Call], target: Sequence[Call]) -> None:
        self.enabled = all(
            any(tensor.storage for call in calls for tensor in call.inputs.values()) for calls in (reference, target)
        )
        self.has_garbage = False
        """Whether any storage holds uninitialised memory."""
        self._traces: dict[Side, dict[int, Trace]] = {"reference": {}, "target": {}}
        if self.enabled:
            self._begin("reference", reference)
            self._begin("target", target)

    def traces(self, reference: TensorRow, target: TensorRow) -> tuple[Trace, Trace]:
        """Return the traces of a tensor on both sides."""
        return self.trace("reference", reference), self.trace("target", target)

    def trace(self, side: Side, tensor: TensorRow) -> Trace:
        """Return the trace of a tensor; one that no call of the step made is a leaf."""
        traces = self._traces[side]
        found = traces.get(tensor.storage)
        if found is None:
            found = traces[tensor.storage] = Trace(leaf=True)
        return found

    def unread(self, reference: Call, target: Call) -> set[str]:
        """Return the inputs of a pair whose values mean nothing on either side."""
        return {
            name
            for name in reference.inputs
            if self.reads_garbage(reference, name, "reference") or self.reads_garbage(target, name, "target")
        }

    def reads_garbage(self, call: Call, name: str, side: Side) -> bool:
        """Return whether the input's values mean nothing: uninitialised, or overwritten without being read."""
        if _is_only_written(call, name):
            return True
        tensor = call.inputs.get(name) if self.enabled else None
        trace = None if tensor is None else self._traces[side].get(tensor.storage)
        return trace is not None and trace.garbage

    def _begin(self, side: Side, calls: Sequence[Call]) -> None:
        """Mark what is in memory when the step begins and is overwritten, whole, before a calculation reads it."""
        wanted = {
            tensor.storage for call in calls for name, tensor in call.inputs.items() if _is_only_written(call, name)
        }
        ends = _ends(calls, wanted) if wanted else {}
        for call in calls if wanted else ():
            if not wanted:
                return
            if call.row.kind != "op" or call.operator in VIEWS:
                continue
            for name, tensor in call.inputs.items():
                is_whole = tensor.storage in wanted and math.prod(tensor.shape) == ends[tensor.storage]
                if is_whole and _is_only_written(call, name):
                    self._put(side, tensor, Trace(garbage=True))
            wanted.difference_update(tensor.storage for tensor in (*call.inputs.values(), *call.outputs.values()))

    def suspects(self, found: Measure) -> tuple[Call, ...]:
        """Return the calls not judged that made a tensor, of both sides."""
        traces = self._of(found)
        if not traces:
            return ()
        reference, target = traces
        return (*reference.suspects, *target.suspects) if reference.suspects or target.suspects else ()

    def arrives(self, found: Measure) -> tuple[tuple[Call, ...], bool, float]:
        """Return (suspects, whether it is a leaf of both sides, known noise) of an input that is read now.

        The difference of a leaf whose values are known is accounted for from now on.
        """
        traces = self._of(found)
        if not traces:
            return (), False, 0.0
        reference, target = traces
        suspects = (*reference.suspects, *target.suspects) if reference.suspects or target.suspects else ()
        if found.known and reference.leaf and target.leaf:
            left_by = reference.left_by
            if left_by and found.error() > reference.allowed:
                self._put_both(found, Trace(suspects=left_by))
                return left_by, False, 0.0
            self._put_both(found, Trace(found.noise, peak_of(found)))
            return suspects, not left_by, found.noise
        return suspects, False, reference.noise if reference.noise > target.noise else target.noise

    def known_noise(self, found: Measure) -> float:
        """Return the absolute error of an element that compared calls account for."""
        traces = self._of(found)
        if not traces:
            return 0.0
        reference, target = traces
        return reference.noise if reference.noise > target.noise else target.noise

    def known_peak(self, found: Measure) -> float | None:
        """Return the same for the worst element; None where nothing is known (no flow, or a leaf of both)."""
        traces = self._of(found)
        if not traces or (traces[0].leaf and traces[1].leaf):
            return None
        return max(traces[0].peak, traces[1].peak)

    def take_leaf(self, found: Measure) -> None:
        """From now on the difference of a leaf of both sides is accounted for."""
        self._put_both(found, Trace(found.noise, peak_of(found)))

    def suspect(self, found: Measure, call: Call) -> None:
        """Nothing is known of an output of `call`."""
        self._put_both(found, Trace(suspects=(call,)))

    def _of(self, found: Measure) -> tuple[Trace, Trace] | tuple[()]:
        if not self.enabled:
            return ()
        reference = self._traces["reference"].get(found.reference.storage) or self.trace("reference", found.reference)
        target = self._traces["target"].get(found.target.storage) or self.trace("target", found.target)
        return reference, target

    def _put_both(self, found: Measure, trace: Trace) -> None:
        self._put("reference", found.reference, trace)
        self._put("target", found.target, trace)

    def judged(
        self, found: Measure, worst: float, inputs: Iterable[TensorRow], suspects: tuple[Call, ...] = ()
    ) -> None:
        """An output was compared; `worst` is the greatest error of an element that its tolerance allows for.

        `suspects` are calls before it that the comparison could not have seen (see `unseen`).
        """
        if not self.enabled:
            return
        noise, peak = found.noise, max(peak_of(found), worst)
        storage = found.reference.storage
        if storage in {tensor.storage for tensor in inputs}:  # in place, perhaps only in a part of the storage
            old = self._traces["reference"].get(storage, Trace())
            noise, peak = max(noise, old.noise), max(peak, old.peak)
        self._put_both(found, Trace(noise, peak, suspects=suspects))

    def agreed(self, found: Measure, maker: Tolerance | None) -> None:
        """An output agrees; `maker` tells what its tolerance allows for, None where the sides are equal."""
        tolerated = None if maker is None else partial(maker.allowed, found)
        self._put_both(found, Trace(found.noise, peak_of(found), tolerated=tolerated))

    def wrote_silently(self, reference: Call, target: Call, name: str, allowed: float) -> None:
        """An input that the pair wrote without returning it is compared anew where it is read next; then it may differ
        by `allowed`, relative to itself."""
        self._put("reference", reference.inputs[name], Trace(leaf=True, left_by=(reference, target), allowed=allowed))
        self._put("target", target.inputs[name], Trace(leaf=True))

    def written_elsewhere(self, reference: TensorRow, target: TensorRow) -> float:
        """A tensor of both sides was written by no recorded call; where it is read next it is a leaf.

        Return the absolute difference of an element that calls accounted for before.
        """
        before = max(trace.noise for trace in self.traces(reference, target))
        self._put("reference", reference, Trace(leaf=True))
        self._put("target", target, Trace(leaf=True))
        return before

    def uninitialised(self, reference: Call, target: Call, name: str) -> None:
        """An output of the pair holds nothing that means the same on both sides."""
        for side, call in (("reference", reference), ("target", target)):
            if name in call.outputs:
                self._put(side, call.outputs[name], Trace(garbage=True))  # type: ignore[arg-type]  # widened to str

    def not_judged(self, call: Call, side: Side, growth: float = UNSEEN_GROWTH) -> None:
        """A call that only one side has, or whose outputs could not be compared: its outputs are suspect.

        `growth` is by how much it may let an error grow: 1 where the other side has nothing in its stead.
        """
        if not self.enabled:
            return
        if call.operator in UNINITIALISED:
            for tensor in call.outputs.values():
                self._put(side, tensor, Trace(garbage=True))
            return
        if call.operator in ADOPTING:
            for tensor in call.outputs.values():
                self._put(side, tensor, Trace(leaf=True))
            return
        if call.operator in VIEWS:
            self._view(call, side)
            return
        came_in = [
            (tensor, self.trace(side, tensor))
            for name, tensor in call.inputs.items()
            if not self.reads_garbage(call, name, side)
        ]
        relative = max((trace.peak / size for tensor, trace in came_in if (size := greatest_of(tensor))), default=0.0)
        suspects = tuple(dict.fromkeys(suspect for _, trace in came_in for suspect in trace.suspects))
        moved = call.operator in TRANSPORT
        if not moved:
            suspects = (*suspects, call)
        model = error_model(call)
        for tensor in written(call):
            own = rounding(model, tensor, tensor)
            of_element = scale(call, tensor.name) / math.sqrt(elements(tensor) or 1)
            error = growth * (relative + own) * max(greatest_of(tensor), of_element)
            leaf = moved and bool(came_in) and came_in[-1][1].leaf
            self._put(side, tensor, Trace(error, error, leaf=leaf, suspects=suspects))

    def _view(self, call: Call, side: Side) -> None:
        source = next(iter(call.inputs.values()), None)
        if source is None:
            return
        trace = self.trace(side, source)
        for tensor in call.outputs.values():
            self._traces[side][tensor.storage] = trace

    def _put(self, side: Side, tensor: TensorRow, trace: Trace) -> None:
        self._traces[side][tensor.storage] = trace
        self.has_garbage = self.has_garbage or trace.garbage


def _is_only_written(call: Call, name: str) -> bool:
    """Return whether a call overwrites an input without reading it: in place, or as an `out` that it gives back."""
    if name == "input.0":
        return call.operator in OVERWRITING and is_in_place(call.row.name)
    if not name.startswith("input.out"):
        return False
    storage = call.inputs[name].storage
    return call.row.name.endswith("out") or any(tensor.storage == storage for tensor in call.outputs.values())


def _ends(calls: Sequence[Call], storages: set[int]) -> dict[int, int]:
    """Return by storage how many elements of it, from its begin, the tensors of a step reach over."""
    found = dict.fromkeys(storages, 0)
    for call in calls:
        for tensor in (*call.inputs.values(), *call.outputs.values()):
            if tensor.storage in found and 0 not in tensor.shape:
                last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride, strict=False))
                found[tensor.storage] = max(found[tensor.storage], tensor.storage_offset + last + 1)
    return found


def written(call: Call) -> list[TensorRow]:
    """Return the tensors a call writes: its outputs, its first argument in place, all of a collective's."""
    if call.row.name.startswith(COLLECTIVES):
        return [*call.inputs.values(), *call.outputs.values()]
    if call.outputs:
        return list(call.outputs.values())
    return [call.inputs["input.0"]] if is_in_place(call.row.name) and "input.0" in call.inputs else []


def peak_of(found: Measure) -> float:
    """Return the error of the worst element: exact, or what noise of the estimated size may reach."""
    if found.nonfinite_differs:
        return math.inf
    return found.max_error if found.exact is not None else max(found.max_error, PEAK_OF_NOISE * found.noise, found.peak)
