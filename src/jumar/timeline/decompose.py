"""`decompose`: where the time of each step went, in parts that add up to the step exactly.

Each nanosecond of a step belongs to one part. Where the device has a side in the trace, its work comes first and the
host explains only the time in which the device is idle. Otherwise the operators of the host are the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jumar.timeline.model.events import Integers, Kind, StepOrigin, StepWindow, Timeline
from jumar.timeline.phases import Phases, device_phases, host_phases
from jumar.timeline.spans import Spans

HOST_ONLY = {
    "collector": "Python's garbage collector runs",
    "compile": "an operator or a graph is compiled",
    "data": "the program waits for its next batch, or makes it itself",
    "collective": "communication between ranks while no operator calculates",
    "wait": "the host waits for a device",
    "optimizer": "the optimizer's step and its zeroing of gradients",
    "backward": "operators of the backward pass, and what is between them on the autograd thread",
    "forward": "the forward pass: its ranges and modules, or operators whose backward follows in the step",
    "operators": "operators outside of forward, backward and optimizer",
    "host": "no operator runs: Python, or a thread that the profiler does not see",
}
"""Parts of a step without a device's side, the first ones first where several are true, and their words."""

WITH_DEVICE = {
    "backward": "the device calculates what the backward pass launched",
    "optimizer": "the device calculates what the optimizer launched",
    "forward": "the device calculates what the forward pass launched",
    "operators": "the device calculates what was launched outside of forward, backward and optimizer",
    "collective": "communication between ranks while the device calculates nothing",
    "copy": "copies and fills while the device neither calculates nor communicates",
    "collector": "the device is idle while Python's garbage collector runs",
    "compile": "the device is idle while an operator or a graph is compiled",
    "data": "the device is idle while the program waits for its next batch, or makes it",
    "wait": "the device is idle while the host waits for it: the way there and back",
    "host": "the device is idle while the host prepares its work",
}
"""Parts of a step with a device's side. The first six are the busy device, the others its idle time."""
IDLE = ("collector", "compile", "data", "wait", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """One step. Times in nanoseconds."""

    step: StepWindow
    parts: Mapping[str, int]
    """Part -> its time in the step. The sum is the step's length."""
    hidden_collective_ns: int
    """Communication while something calculates: it costs nothing here. No part of the sum."""
    device_idle_ns: int | None
    """Time in which the device does nothing: the sum of its last five parts. None without a device's side."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One part over the steady steps, in nanoseconds."""

    median_ns: float
    least_ns: int
    greatest_ns: int
    deviation_ns: float
    """Median of the distances from the median (MAD)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """The steps of one rank in parts."""

    rank: int
    has_device: bool
    words: Mapping[str, str]
    """Part -> what it is."""
    steps: Sequence[StepParts]
    """Empty where the trace does not tell its steps."""
    steps_from: StepOrigin
    whole: StepParts
    """The whole trace as if it were one step."""
    steady: Mapping[str, Spread]
    """Part, and `step` for the whole, over all steps but the first; empty with fewer than two steps."""

    @property
    def first_excess_ns(self) -> Mapping[str, float]:
        """By how much the first step is above the steady median: warm-up and compiling. Part, and `step`."""
        if not self.steady:
            return {}
        first = {**self.steps[0].parts, "step": self.steps[0].step.duration_ns}
        return {name: first[name] - spread.median_ns for name, spread in self.steady.items()}


def decompose(timeline: Timeline) -> Decomposition:
    """Return the parts of each step of a timeline."""
    host = host_phases(timeline)
    device = device_phases(timeline, host)
    words = WITH_DEVICE if device else HOST_ONLY
    phases = device if device else host
    exclusive = _exclusive(phases, host, [name for name in words if name != "host"])
    hidden = phases.collective & phases.calculating
    windows = [_whole(timeline), *timeline.steps]
    starts, ends = np.array([(window.start_ns, window.end_ns) for window in windows], np.int64).T
    lengths = {name: spans.within(starts, ends).tolist() for name, spans in exclusive.items()}
    hidden_lengths = hidden.within(starts, ends).tolist()
    whole, *steps = [
        _step(window, {name: numbers[index] for name, numbers in lengths.items()}, hidden_lengths[index], bool(device))
        for index, window in enumerate(windows)
    ]
    return Decomposition(
        rank=timeline.rank, has_device=bool(device), words=words, steps=steps, steps_from=timeline.steps_from,
        whole=whole, steady=_steady(steps[1:]),
    )  # fmt: skip


def _exclusive(phases: Phases, host: Phases, names: Sequence[str]) -> dict[str, Spans]:
    """Return for each part the time that is its own and of no part before it."""
    found, taken = {}, Spans.none()
    for name in names:
        whole = getattr(host if name in IDLE else phases, name)
        if name == "collective":
            whole = whole - phases.calculating
        found[name] = whole - taken
        taken |= whole
    return found


def _whole(timeline: Timeline) -> StepWindow:
    """Return the time from the first event to the last, without marks of the profiler itself."""
    events = timeline.events.where(~timeline.of(Kind.OTHER))
    return StepWindow(0, int(events.start_ns.min()), int(events.end_ns.max())) if len(events) else StepWindow(0, 0, 0)


def _step(window: StepWindow, parts: dict[str, int], hidden: int, has_device: bool) -> StepParts:
    parts["host"] = window.duration_ns - sum(parts.values())
    idle = sum(parts[name] for name in IDLE) if has_device else None
    return StepParts(step=window, parts=parts, hidden_collective_ns=hidden, device_idle_ns=idle)


def _steady(steps: Sequence[StepParts]) -> dict[str, Spread]:
    if not steps:
        return {}
    columns = {name: [step.parts[name] for step in steps] for name in steps[0].parts}
    columns["step"] = [step.step.duration_ns for step in steps]
    return {name: _spread(np.array(values, np.int64)) for name, values in columns.items()}


def _spread(values: Integers) -> Spread:
    median = float(np.median(values))
    return Spread(median, int(values.min()), int(values.max()), float(np.median(np.abs(values - median))))
