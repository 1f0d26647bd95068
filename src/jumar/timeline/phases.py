"""`Phases`: when a run computes forward, backward or the optimizer, and what else goes on at that time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind, Timeline
from jumar.timeline.model.joins import launches
from jumar.timeline.spans import Spans

BACKWARD_NODE = "autograd::engine::evaluate_function"
AUTOGRAD_THREAD = "pt_autograd"
BACKWARD = re.compile(r"(.*[.#:/ ])?backward$|torch/(_tensor|autograd/__init__)\.py\(\d+\): backward$", re.IGNORECASE)
FORWARD = re.compile(r"(.*[.#:/ ])?forward$|nn\.Module: |DistributedDataParallel\.forward$", re.IGNORECASE)
OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")

BETWEEN_NODES_NS = 100_000
"""The engine needs a few microseconds from one node to the next. What is longer is not its own."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Sets of time. They may overlap: `decompose` gives each nanosecond to one."""

    forward: Spans
    backward: Spans
    optimizer: Spans
    operators: Spans
    """Any operator."""
    collective: Spans
    calculating: Spans
    """Something calculates that is no communication: this hides communication."""
    copy: Spans
    collector: Spans
    compile: Spans
    data: Spans
    wait: Spans


def host_phases(timeline: Timeline) -> Phases:
    """Return what the host does. Waiting, data and compiling count on the threads that drive the run."""
    events = timeline.events
    on_host = timeline.on("host")
    collectives, operators = timeline.of(Kind.COLLECTIVE) & on_host, timeline.of(Kind.OPERATOR) & on_host
    nodes = operators & timeline.named(lambda name: name.startswith(BACKWARD_NODE))
    driving = on_host & np.isin(events.lane, _driving_lanes(timeline, nodes))
    ranges = timeline.of(Kind.RANGE, Kind.PYTHON) & on_host
    return Phases(
        forward=_of(timeline, ranges & timeline.named(FORWARD.match)) | _before_backward(timeline, operators, nodes),
        backward=_of(timeline, ranges & timeline.named(BACKWARD.match)) | _backward(timeline, operators, nodes),
        optimizer=_of(timeline, ranges & timeline.named(OPTIMIZER.match)),
        operators=_of(timeline, operators),
        collective=_of(timeline, collectives),
        calculating=_calculating(timeline, operators, collectives),
        copy=Spans.none(),
        collector=_of(timeline, timeline.of(Kind.COLLECTOR) & on_host),
        compile=_of(timeline, timeline.of(Kind.COMPILE) & driving),
        data=_of(timeline, timeline.of(Kind.DATA) & driving),
        wait=_of(timeline, timeline.of(Kind.WAIT) & driving),
    )


def device_phases(timeline: Timeline, host: Phases) -> Phases | None:
    """Return what the devices do, by the phase in which it was launched; None without a device's side."""
    on_device = timeline.on("device")
    kernels = timeline.of(Kind.KERNEL) & on_device
    collectives, copies = timeline.of(Kind.COLLECTIVE) & on_device, timeline.of(Kind.COPY) & on_device
    if not (kernels | collectives | copies).any():
        return None
    launched = _launch_times(timeline, on_device)
    known = launched >= 0
    phase = {
        name: kernels & known & getattr(host, name).hold(launched) for name in ("optimizer", "backward", "forward")
    }
    return Phases(
        **{name: _of(timeline, mask) for name, mask in phase.items()},
        operators=_of(timeline, kernels),
        collective=_of(timeline, collectives),
        calculating=_of(timeline, kernels),
        copy=_of(timeline, copies),
        collector=host.collector, compile=host.compile, data=host.data, wait=host.wait,
    )  # fmt: skip


def _of(timeline: Timeline, mask: Mask) -> Spans:
    return Spans.of_events(timeline.events, mask)


def _nested(timeline: Timeline, rows: Integers) -> tuple[Integers, Integers]:
    """Return these events in the order of nesting, and for each the place of the one that holds it."""
    events = timeline.events
    lanes, starts, durations = events.lane.astype(np.int64), events.start_ns, events.duration_ns
    rows = rows[nesting.in_order(lanes[rows], starts[rows], durations[rows])]
    return rows, nesting.parents(lanes[rows], starts[rows], durations[rows])


def _driving_lanes(timeline: Timeline, nodes: Mask) -> Sequence[int]:
    """Return the lanes of the host that drive the run: those with step marks, data or the optimizer, and autograd's.

    Without any of them it is the lane whose operators take longest.
    """
    events = timeline.events
    marks = timeline.of(Kind.STEP, Kind.DATA) | (timeline.of(Kind.RANGE) & timeline.named(OPTIMIZER.match))
    found = np.unique(events.lane[(marks & timeline.on("host")) | nodes]).tolist()
    if not found and len(events):
        work = timeline.on("host") & timeline.of(Kind.OPERATOR, Kind.RANGE, Kind.RUNTIME)
        times = np.bincount(events.lane[work], events.duration_ns[work], len(timeline.lanes))
        found = [np.argmax(times)]
    return [int(lane) for lane in found]


def _backward(timeline: Timeline, operators: Mask, nodes: Mask) -> Spans:
    """Return the time of the backward pass: its nodes and what lies between two of them without another operator."""
    events = timeline.events
    autograd = [index for index, lane in enumerate(timeline.lanes) if AUTOGRAD_THREAD in lane.name]
    nodes = nodes | (operators & np.isin(events.lane, autograd))
    rows, holders = _nested(timeline, np.flatnonzero(operators | timeline.of(Kind.DATA)))
    top = rows[holders == nesting.NO_PARENT]
    starts, ends, lanes, chosen = events.start_ns[top], events.end_ns[top], events.lane[top], nodes[top]
    follows = chosen[:-1] & chosen[1:] & (lanes[:-1] == lanes[1:]) & (starts[1:] - ends[:-1] <= BETWEEN_NODES_NS)
    ends[:-1][follows] = np.maximum(ends[:-1], starts[1:])[follows]
    return Spans.of(starts[chosen], ends[chosen])


def _before_backward(timeline: Timeline, operators: Mask, nodes: Mask) -> Spans:
    """Return the time of operators whose number a node of the backward pass has, later in the same step."""
    events = timeline.events
    rows = np.flatnonzero(operators & ~nodes & (events.sequence >= 0))
    back = np.flatnonzero(nodes & (events.sequence >= 0))
    if not len(rows) or not len(back):
        return Spans.none()
    back = back[np.lexsort((events.start_ns[back], events.sequence[back]))]
    numbers = events.sequence[back]
    place = np.searchsorted(numbers, events.sequence[rows], "left")
    matched = np.append(numbers, -1)[place] == events.sequence[rows]
    node_start = np.append(events.start_ns[back], -1)[place]
    is_before = matched & (events.end_ns[rows] <= node_start)
    is_before &= _step_of(timeline, events.start_ns[rows]) == _step_of(timeline, node_start)
    marked = np.zeros(len(events), bool)
    marked[rows[is_before]] = True
    return _of(timeline, _with_holders(timeline, operators & ~nodes, marked))


def _with_holders(timeline: Timeline, operators: Mask, marked: Mask) -> Mask:
    """Return the mask of the marked operators and of the operators around them."""
    rows, holders = _nested(timeline, np.flatnonzero(operators))
    found = marked.copy()
    climbing = np.flatnonzero(marked[rows])
    while len(climbing):
        found[rows[climbing]] = True
        climbing = np.unique(holders[climbing])
        climbing = climbing[climbing != nesting.NO_PARENT]
    return found


def _step_of(timeline: Timeline, times: Integers) -> Integers:
    """Return the index of the step in which each time lies; all times lie in one where steps are not known."""
    starts = np.array([step.start_ns for step in timeline.steps], np.int64)
    return np.asarray(np.searchsorted(starts, times, "right"), np.int64)


def _calculating(timeline: Timeline, operators: Mask, collectives: Mask) -> Spans:
    """Return when a thread runs an operator and is not in a collective."""
    found = Spans.none()
    for lane in np.unique(timeline.events.lane[operators]):
        here = timeline.events.lane == lane
        found |= _of(timeline, operators & here) - _of(timeline, collectives & here)
    return found


def _launch_times(timeline: Timeline, on_device: Mask) -> Integers:
    """Return for each event of a device when the host launched it; -1 for others and where no link tells."""
    events, pairs = timeline.events, launches(timeline)
    pairs = pairs[on_device[pairs[:, 1]]]
    found = np.full(len(events), -1, np.int64)
    found[pairs[:, 1]] = events.start_ns[pairs[:, 0]]
    return found
