"""`Timeline`: the events of one rank in columns, its lanes and its steps.

A trace has hundreds of thousands of events, so they are columns of NumPy and not objects. Times are whole nanoseconds
since `Timeline.origin_ns`: as float64, microseconds since 1970 are a quarter of a microsecond apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.allocations import Allocations

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Side = Literal["host", "device"]


class Kind(enum.IntEnum):
    """What an event is. A format names its own categories; every analysis asks these."""

    OPERATOR = 0
    """The host's side of an operator call: `aten::mm`."""
    RANGE = 1
    """A named part of the program: `record_function`, a module's forward, an optimizer's step."""
    PYTHON = 2
    """A call of a Python function."""
    RUNTIME = 3
    """A call of the device's runtime: a launch, an allocation."""
    WAIT = 4
    """The host waits for a device: `cudaStreamSynchronize`, `aclrtSynchronizeStream`, `aten::item`'s copy."""
    KERNEL = 5
    """Calculation on a device."""
    COPY = 6
    """A copy or a fill on a device or over the host's bus."""
    COLLECTIVE = 7
    """Communication between ranks."""
    COMPILE = 8
    """An operator or a graph is compiled."""
    DATA = 9
    """The program waits for its next batch, or makes it."""
    COLLECTOR = 10
    """Python's garbage collector runs."""
    STEP = 11
    """A step mark: `ProfilerStep#3`."""
    OTHER = 12


@dataclass(frozen=True, slots=True)
class Lane:
    """A sequence of events that do not overlap except by nesting: a thread of the host, a stream of a device."""

    name: str
    """For people: `thread 4711 (pt_autograd_0)`, `stream 7`."""
    process: str
    """The format's process: a process id, or a layer such as `Ascend Hardware`."""
    side: Side
    device: int = -1
    """Number of the device; -1 for the host's lanes."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What is known of an event beside its times. Events of one call share one."""

    shapes: str = ""
    """Shapes of the inputs as JSON, `[[8, 4], [4]]`; empty when not recorded."""
    dtypes: str = ""
    """Dtypes of the inputs as JSON, in the format's words."""
    stack: str = ""
    """Innermost frame of the user's own code, `train.py:41`; empty when not recorded."""
    module: str = ""
    """Dotted path of the module, where the format knows it."""
    more: tuple[tuple[str, str], ...] = ()
    """Further fields that a rule may ask for, name and text, in the format's words: `Input Formats`, `Block Dim`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The events of a rank in the order of their begin; n rows in every column."""

    start_ns: Integers
    """Begin, in nanoseconds since the timeline's origin."""
    duration_ns: Integers
    """Length in nanoseconds, at least 0."""
    kind: npt.NDArray[np.uint8]
    """`Kind`."""
    name: Indices
    """Index into `Timeline.names`."""
    lane: Indices
    """Index into `Timeline.lanes`."""
    detail: Indices
    """Index into `Timeline.details`; -1 for none."""
    link: Integers
    """Joins a launch of the host with what it started on the device: equal and not 0."""
    sequence: Integers
    """Number that an operator of the forward pass shares with its backward; -1 for none."""

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)

    @property
    def end_ns(self) -> Integers:
        """The end of each event, in nanoseconds since the timeline's origin."""
        return self.start_ns + self.duration_ns

    def where(self, mask: npt.NDArray[np.bool_] | Integers | slice) -> Events:
        """Return the events that a mask or indices choose, in their order."""
        return Events(**{name: getattr(self, name)[mask] for name in COLUMNS})


COLUMNS: Mapping[str, type[np.generic]] = {
    "start_ns": np.int64, "duration_ns": np.int64, "kind": np.uint8, "name": np.int32, "lane": np.int32,
    "detail": np.int32, "link": np.int64, "sequence": np.int64,
}  # fmt: skip
"""The columns of `Events` and their dtypes."""


@dataclass(frozen=True, slots=True)
class StepWindow:
    """One step of the program: from its mark's begin to the next one's, or to its own end where that is known."""

    number: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns


StepOrigin = Literal["marks", "optimizer", "vendor", "none"]
"""How the steps are known: by the profiler's marks, the optimizer's calls, the vendor's step table, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A number over time: memory, the depth of a queue, the processor's load."""

    name: str
    """`memory cpu`, `memory npu:0`, `reserved npu:0`, `loader queue`, `process cpu %`."""
    unit: str
    """`bytes`, `count`, `%`."""
    times_ns: Integers
    """When, in nanoseconds since the timeline's origin, ascending."""
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The events of one rank."""

    source: str
    """Path of the file or folder it was read from."""
    format: str
    """`kineto`, `ascend`, `msprof`, `mindspore`, `jumar`."""
    rank: int = 0
    num_ranks: int = 1
    origin_ns: int = 0
    """Nanoseconds since 1970 of time 0, where the format knows; else 0."""
    device: str = ""
    """`cpu`, `cuda`, `npu`; what the events of the device's side ran on."""
    device_name: str = ""
    """`NVIDIA H200`, `Ascend910B1`, where the format knows."""
    events: Events
    names: Sequence[str]
    lanes: Sequence[Lane]
    details: Sequence[Detail] = ()
    steps: Sequence[StepWindow] = ()
    steps_from: StepOrigin = "none"
    counters: Sequence[Counter] = ()
    allocations: Sequence[Allocations] = ()
    """Who held each device's memory at its peak, where the format knows."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the format says of the run: versions, settings of the profiler (`with_stack`), environment variables."""
    lost: Sequence[str] = ()
    """What could not be read, one sentence each, with the amount: never passed over in silence."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """What this file has not, and how to get it: `shapes`, `stacks`, `device`, `memory`, `steps` -> one sentence."""

    def name_of(self, index: int) -> str:
        """Return the name of one event."""
        return self.names[int(self.events.name[index])]

    def detail_of(self, index: int) -> Detail | None:
        """Return what else is known of one event."""
        found = int(self.events.detail[index])
        return self.details[found] if found >= 0 else None

    def of(self, *kinds: Kind) -> npt.NDArray[np.bool_]:
        """Return the mask of the events of these kinds."""
        return np.isin(self.events.kind, [int(kind) for kind in kinds])

    def named(self, wanted: Callable[[str], object]) -> npt.NDArray[np.bool_]:
        """Return the mask of the events whose name is wanted. Each name is asked once."""
        chosen = np.fromiter((bool(wanted(name)) for name in self.names), bool, len(self.names))
        return chosen[self.events.name] if len(chosen) else np.zeros(len(self.events), bool)

    def on(self, side: Side) -> npt.NDArray[np.bool_]:
        """Return the mask of the events on the host's or on the devices' lanes."""
        chosen = np.fromiter((lane.side == side for lane in self.lanes), bool, len(self.lanes))
        return chosen[self.events.lane] if len(chosen) else np.zeros(len(self.events), bool)
